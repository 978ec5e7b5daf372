/*
 * gpumem from C99: a device, an allocator, blocks with tags, the plan of a small graph, statistics, and a request that
 * can't be met, explained. It runs anywhere: the device is the host.
 *
 *   cc -std=c99 explain.c $(pkg-config --cflags --libs gpumem) -o explain && ./explain
 */
#include <gpumem.h>

#include <stdio.h>
#include <stdlib.h>

#define MIB (UINT64_C(1) << 20)

/* Every call answers with a status; the last error of the thread says the rest. */
static void must(gpumem_status status, const char *what) {
    if (status == GPUMEM_STATUS_OK) return;
    fprintf(stderr, "%s: %s: %s\n", what, gpumem_status_name(status), gpumem_last_error());
    exit(1);
}

static double mib(uint64_t bytes) { return (double)bytes / (double)MIB; }

/* x and a weight give h; h and the weight give y; y gives the loss, which stays. */
static void plan_a_graph(void) {
    gpumem_graph *graph = NULL;
    gpumem_plan *plan = NULL;
    gpumem_plan_info info = GPUMEM_PLAN_INFO_INIT;
    const struct {
        const char *name;
        uint64_t bytes;
        int32_t kind;
    } tensors[] = {
        {"x", 2 * MIB, GPUMEM_TENSOR_INPUT},        {"weight", 4 * MIB, GPUMEM_TENSOR_PARAMETER},
        {"h", 6 * MIB, GPUMEM_TENSOR_INTERMEDIATE}, {"y", 3 * MIB, GPUMEM_TENSOR_INTERMEDIATE},
        {"loss", 4, GPUMEM_TENSOR_INTERMEDIATE},
    };
    const uint32_t inputs[3][2] = {{0, 1}, {2, 1}, {3, 3}};
    const size_t input_counts[3] = {2, 2, 1};
    const uint32_t outputs[3] = {2, 3, 4};
    uint64_t buffer;
    size_t i;

    must(gpumem_graph_create("two layers", &graph), "making a graph");
    for (i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        gpumem_tensor tensor = GPUMEM_TENSOR_INIT;
        uint32_t number;
        tensor.name = tensors[i].name;
        tensor.bytes = tensors[i].bytes;
        tensor.kind = tensors[i].kind;
        tensor.is_result = i == 4;
        must(gpumem_graph_tensor_add(graph, &tensor, &number), "adding a tensor");
    }
    for (i = 0; i < 3; i++) {
        gpumem_op op = GPUMEM_OP_INIT;
        uint32_t number;
        op.kind = i < 2 ? "matmul" : "mean";
        op.inputs = inputs[i];
        op.input_count = input_counts[i];
        op.outputs = &outputs[i];
        op.output_count = 1;
        op.workspace_bytes = i == 0 ? MIB : 0;
        must(gpumem_graph_op_add(graph, &op, &number), "adding an op");
    }
    must(gpumem_plan_create(graph, NULL, &plan), "planning");
    must(gpumem_plan_verify(plan, graph), "verifying the plan");
    must(gpumem_plan_query(plan, &info), "asking about the plan");
    printf("plan: peak %.2f MiB, and no plan is below %.2f MiB\n", mib(info.peak_bytes), mib(info.lower_bound_bytes));
    for (buffer = 0; buffer < info.buffer_count; buffer++) {
        gpumem_placement place = GPUMEM_PLACEMENT_INIT;
        char name[64];
        must(gpumem_plan_placement(plan, buffer, &place), "asking for a place");
        must(gpumem_plan_buffer_name(plan, buffer, name, sizeof name, NULL), "asking for a name");
        printf("  %-20s at %6.2f MiB, %5.2f MiB, moments %llu to %llu\n", name, mib(place.offset), mib(place.bytes),
               (unsigned long long)place.birth, (unsigned long long)place.death);
    }
    must(gpumem_plan_destroy(plan), "giving the plan up");
    must(gpumem_graph_destroy(graph), "giving the graph up");
}

int main(void) {
    gpumem_config config = GPUMEM_CONFIG_INIT;
    gpumem_device *device = NULL;
    gpumem_allocator *allocator = NULL;
    gpumem_tag tag = GPUMEM_TAG_INIT;
    gpumem_statistics statistics = GPUMEM_STATISTICS_INIT;
    void *weights = NULL, *activations[8] = {NULL}, *too_much = NULL;
    gpumem_status status;
    size_t i;

    if (gpumem_version() / 100 != GPUMEM_VERSION / 100) {
        fprintf(stderr, "built for gpumem %d, but this is %s\n", GPUMEM_VERSION, gpumem_version_text());
        return 1;
    }
    config.device = "host";
    config.capacity_bytes = 64 * MIB;
    must(gpumem_device_create(&config, &device), "opening the device");
    must(gpumem_allocator_create(device, NULL, &allocator), "making an allocator");

    /* A tag for one request; a tag for all requests of a stretch of code. */
    must(gpumem_op_number("linear", &tag.values.op), "numbering an operator");
    tag.values.tier = GPUMEM_TIER_PERSISTENT;
    tag.values.precision = GPUMEM_PRECISION_FP32;
    must(gpumem_allocator_alloc_tagged(allocator, 10 * MIB, 0, GPUMEM_STREAM_DEFAULT, &tag, &weights), "weights");
    tag.values.tier = GPUMEM_TIER_CYCLIC;
    must(gpumem_tag_push(&tag), "pushing a tag");
    for (i = 0; i < 8; i++) {
        must(gpumem_allocator_alloc(allocator, (i + 1) * MIB, 0, GPUMEM_STREAM_DEFAULT, &activations[i]), "activations");
    }
    must(gpumem_tag_pop(), "popping it");
    /* Every other one goes: the bytes are there, but not in one piece. */
    for (i = 0; i < 8; i += 2) {
        must(gpumem_allocator_free(allocator, activations[i], GPUMEM_STREAM_HOME), "freeing");
    }

    must(gpumem_allocator_statistics(allocator, &statistics), "asking for statistics");
    printf("live %.1f MiB (persistent %.1f, cyclic %.1f), at most %.1f; held from the device %.1f MiB\n",
           mib(statistics.live.current_bytes), mib(statistics.tiers[2].current_bytes),
           mib(statistics.tiers[1].current_bytes), mib(statistics.live.peak_bytes),
           mib(statistics.reserved.current_bytes));
    printf("free %.1f MiB, the largest piece %.1f MiB: fragmentation %.0f %%; %llu device calls\n",
           mib(statistics.free_bytes), mib(statistics.largest_free_bytes), statistics.fragmentation_percent,
           (unsigned long long)statistics.driver_calls);

    plan_a_graph();

    status = gpumem_allocator_alloc(allocator, 40 * MIB, 0, GPUMEM_STREAM_DEFAULT, &too_much);
    if (status != GPUMEM_STATUS_OUT_OF_MEMORY || too_much != NULL) {
        fprintf(stderr, "40 MiB more than there are were handed out: %s\n", gpumem_status_name(status));
        return 1;
    }
    printf("a request for 40 MiB, as it should, is refused:\n%s\n", gpumem_last_error());

    for (i = 1; i < 8; i += 2) {
        must(gpumem_allocator_free(allocator, activations[i], GPUMEM_STREAM_HOME), "freeing");
    }
    must(gpumem_allocator_free(allocator, weights, GPUMEM_STREAM_HOME), "freeing");
    must(gpumem_allocator_destroy(allocator), "giving the allocator up");
    must(gpumem_device_destroy(device), "giving the device up");
    return 0;
}

/* C99: a graph is built, planned, asked, saved, loaded and verified; what can go wrong on the way is said. */
#include <gpumem.h>

#include "check.h"
#include <string.h>
#include <unistd.h>

static uint32_t tensor(gpumem_graph *graph, const char *name, uint64_t bytes, int32_t kind) {
    gpumem_tensor tensor = GPUMEM_TENSOR_INIT;
    uint32_t number = GPUMEM_NO_TENSOR;
    tensor.name = name;
    tensor.bytes = bytes;
    tensor.kind = kind;
    OK(gpumem_graph_tensor_add(graph, &tensor, &number));
    return number;
}

static void op(gpumem_graph *graph, const char *name, uint32_t a, uint32_t b, uint32_t output) {
    gpumem_op op = GPUMEM_OP_INIT;
    uint32_t inputs[2];
    inputs[0] = a;
    inputs[1] = b;
    op.name = name;
    op.inputs = inputs;
    op.input_count = b == GPUMEM_NO_TENSOR ? 1 : 2;
    op.outputs = &output;
    op.output_count = 1;
    op.workspace_bytes = 100;
    OK(gpumem_graph_op_add(graph, &op, NULL));
}

/* weight, input -> a -> b -> c -> d, 1 MiB each. */
static gpumem_graph *chain(uint32_t *weight, uint32_t *first, uint32_t *last) {
    static const char *names[] = {"a", "b", "c", "d"};
    gpumem_graph *graph = NULL;
    uint32_t before;
    int i;
    OK(gpumem_graph_create("chain", &graph));
    *weight = tensor(graph, "weight", 4096, GPUMEM_TENSOR_PARAMETER);
    *first = before = tensor(graph, "input", 1 << 20, GPUMEM_TENSOR_INPUT);
    for (i = 0; i < 4; i++) {
        *last = tensor(graph, names[i], 1 << 20, 0);
        op(graph, names[i], before, i == 0 ? *weight : GPUMEM_NO_TENSOR, *last);
        before = *last;
    }
    OK(gpumem_graph_check(graph));
    return graph;
}

static int32_t count_calls(const gpumem_plan_progress *progress, void *data) {
    CHECK(progress->struct_size >= sizeof *progress);
    CHECK(progress->peak_bytes >= progress->lower_bound_bytes);
    ++*(int *)data;
    return 0;
}

static int32_t stop(const gpumem_plan_progress *progress, void *data) {
    (void)progress;
    ++*(int *)data;
    return 1;
}

static void a_graph_gets_a_plan_that_holds(const char *path) {
    gpumem_plan_options options = GPUMEM_PLAN_OPTIONS_INIT;
    gpumem_plan_info info = GPUMEM_PLAN_INFO_INIT, loaded_info = GPUMEM_PLAN_INFO_INIT;
    gpumem_placement placement = GPUMEM_PLACEMENT_INIT;
    gpumem_plan *plan = NULL, *loaded = NULL;
    uint32_t weight, first, last;
    uint64_t offset = 1, again = 2, buffer = 0, found = 1;
    char name[16];
    int calls = 0;
    gpumem_graph *graph = chain(&weight, &first, &last), *other = NULL;
    options.progress = count_calls;
    options.progress_data = &calls;
    OK(gpumem_plan_create(graph, &options, &plan));
    CHECK(calls > 0);
    OK(gpumem_plan_query(plan, &info));
    CHECK(info.quality == GPUMEM_PLAN_OPTIMAL && info.peak_bytes == info.lower_bound_bytes);
    CHECK(info.is_deterministic == 1 && info.capacity_bytes == GPUMEM_UNSET);
    /* The weight, and two neighbours of the chain with a workspace. */
    CHECK(info.peak_bytes >= (2u << 20) + 4096 && info.peak_bytes < (3u << 20));
    OK(gpumem_plan_offset(plan, weight, &offset));
    CHECK(offset == 0);
    OK(gpumem_plan_buffer_of(plan, last, &buffer));
    OK(gpumem_plan_placement(plan, buffer, &placement));
    CHECK(placement.bytes == 1 << 20 && placement.tier != GPUMEM_TIER_PERSISTENT && placement.birth == 6);
    OK(gpumem_plan_buffer_name(plan, buffer, name, sizeof name, NULL));
    CHECK(strcmp(name, "d") == 0);
    OK(gpumem_plan_verify(plan, NULL));
    OK(gpumem_plan_verify(plan, graph));

    OK(gpumem_plan_save(plan, path));
    OK(gpumem_plan_load(path, &loaded));
    OK(gpumem_plan_verify(loaded, graph));
    OK(gpumem_plan_query(loaded, &loaded_info));
    CHECK(loaded_info.peak_bytes == info.peak_bytes && loaded_info.is_deterministic == -1);
    OK(gpumem_plan_offset(plan, last, &offset));
    OK(gpumem_plan_offset(loaded, last, &again));
    CHECK(offset == again);
    OK(gpumem_plan_buffer_find(loaded, "op0", &found));

    /* Another graph's plan it is not. */
    tensor(graph, "more", 64, GPUMEM_TENSOR_PARAMETER);
    IS(GPUMEM_STATUS_IO, gpumem_graph_save(graph, "/dev/full"));
    CHECK(strstr(gpumem_last_error(), "/dev/full") != NULL);
    OK(gpumem_graph_save(graph, path));
    OK(gpumem_graph_load(path, &other));
    op(other, "more", 0, GPUMEM_NO_TENSOR, tensor(other, "late", 32, 0));
    IS(GPUMEM_STATUS_PLAN_DEFECT, gpumem_plan_verify(loaded, other));
    IS(GPUMEM_STATUS_CORRUPT, gpumem_plan_load(path, &plan));
    CHECK(strstr(gpumem_last_error(), "holds a graph, not a plan") != NULL && plan == NULL);
    OK(gpumem_plan_destroy(loaded));
    OK(gpumem_graph_destroy(other));
    OK(gpumem_graph_destroy(graph));
    unlink(path);
}

static void what_cannot_be_is_said(void) {
    gpumem_plan_options options = GPUMEM_PLAN_OPTIONS_INIT;
    gpumem_plan *plan = NULL;
    uint32_t weight, first, last;
    uint64_t offset = 0;
    int calls = 0;
    gpumem_graph *graph = chain(&weight, &first, &last);
    options.capacity_bytes = 1 << 20;
    IS(GPUMEM_STATUS_OUT_OF_MEMORY, gpumem_plan_create(graph, &options, &plan));
    CHECK(strstr(gpumem_last_error(), "no plan fits into 1048576 bytes") != NULL);
    options.capacity_bytes = GPUMEM_UNSET;
    options.progress = stop;
    options.progress_data = &calls;
    IS(GPUMEM_STATUS_CANCELLED, gpumem_plan_create(graph, &options, &plan));
    CHECK(plan == NULL && calls == 1);
    options.progress = NULL;
    options.order = GPUMEM_ORDER_MEMORY;
    OK(gpumem_plan_create(graph, &options, &plan));
    IS(GPUMEM_STATUS_NOT_FOUND, gpumem_plan_offset(plan, 1000, &offset));
    OK(gpumem_plan_destroy(plan));
    IS(GPUMEM_STATUS_INVALID_HANDLE, gpumem_plan_offset(plan, last, &offset));
    options.order = 7;
    IS(GPUMEM_STATUS_INVALID_ARGUMENT, gpumem_plan_create(graph, &options, &plan));
    /* An op that reads what nobody makes. */
    op(graph, "orphan", tensor(graph, "nobody's", 64, 0), GPUMEM_NO_TENSOR, tensor(graph, "o", 64, 0));
    IS(GPUMEM_STATUS_INVALID_ARGUMENT, gpumem_graph_check(graph));
    IS(GPUMEM_STATUS_INVALID_ARGUMENT, gpumem_plan_create(graph, NULL, &plan));
    CHECK(strstr(gpumem_last_error(), "nobody's") != NULL);
    /* A handle of another kind. */
    IS(GPUMEM_STATUS_INVALID_HANDLE, gpumem_graph_check((const gpumem_graph *)(const void *)&calls));
    OK(gpumem_graph_destroy(graph));
    IS(GPUMEM_STATUS_IO, gpumem_plan_load("no/such/file", &plan));
}

static void buffers_with_live_ranges_are_placed(void) {
    gpumem_buffer buffers[3] = {{0, 2, 64, 0, GPUMEM_UNSET}, {1, 4, 32, 0, GPUMEM_UNSET}, {2, 5, 64, 0, GPUMEM_UNSET}};
    gpumem_plan_info info = GPUMEM_PLAN_INFO_INIT;
    gpumem_plan *plan = NULL;
    uint64_t offset = 0;
    OK(gpumem_plan_create_for_buffers(buffers, 3, sizeof buffers[0], NULL, &plan));
    OK(gpumem_plan_query(plan, &info));
    CHECK(info.peak_bytes == 96 && info.quality == GPUMEM_PLAN_OPTIMAL && info.buffer_count == 3);
    OK(gpumem_plan_offset(plan, 2, &offset));
    CHECK(offset == 0 || offset == 32);
    OK(gpumem_plan_destroy(plan));
    IS(GPUMEM_STATUS_STRUCT_SIZE, gpumem_plan_create_for_buffers(buffers, 3, 8, NULL, &plan));
    buffers[1].death = 1;
    IS(GPUMEM_STATUS_INVALID_ARGUMENT, gpumem_plan_create_for_buffers(buffers, 3, sizeof buffers[0], NULL, &plan));
}

int main(void) {
    char path[64];
    snprintf(path, sizeof path, "plan-%ld.json.gz", (long)getpid());
    a_graph_gets_a_plan_that_holds(path);
    what_cannot_be_is_said();
    buffers_with_live_ranges_are_placed();
    return 0;
}

/* C99: blocks on the host device; their bytes; everything an allocator answers, and what it refuses. */
#include <gpumem.h>

#include "check.h"
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

static gpumem_allocator *make(const char *settings) {
    gpumem_config config = GPUMEM_CONFIG_INIT;
    gpumem_allocator *allocator = NULL;
    config.settings = settings;
    OK(gpumem_allocator_create(NULL, &config, &allocator));
    return allocator;
}

static void blocks_hold_bytes_and_come_back(void) {
    gpumem_allocator *allocator = make("device=host; capacity=256M");
    gpumem_block_info info = GPUMEM_BLOCK_INFO_INIT;
    gpumem_statistics statistics = GPUMEM_STATISTICS_INIT;
    gpumem_tag tag = GPUMEM_TAG_INIT;
    uint32_t references = 0;
    uint64_t released = 0;
    void *block = NULL, *other = NULL, *nothing = NULL;
    OK(gpumem_allocator_alloc(allocator, 1000, 0, GPUMEM_STREAM_DEFAULT, &block));
    CHECK(((uintptr_t)block & 511) == 0);
    memset(block, 7, 1000);
    OK(gpumem_op_number("attention", &tag.values.op));
    tag.values.tier = GPUMEM_TIER_CYCLIC;
    tag.values.precision = GPUMEM_PRECISION_BF16;
    OK(gpumem_allocator_alloc_tagged(allocator, 3 * MIB, 4096, 0, &tag, &other));
    CHECK(((uintptr_t)other & 4095) == 0);
    memset(other, 8, 3 * MIB);
    CHECK(((unsigned char *)block)[999] == 7);
    OK(gpumem_allocator_block(allocator, other, &info));
    CHECK(info.requested_bytes == 3 * MIB && info.tag.op == tag.values.op && info.references == 1);
    CHECK(info.tag.tier == GPUMEM_TIER_CYCLIC && info.tag.precision == GPUMEM_PRECISION_BF16);
    OK(gpumem_allocator_retain(allocator, other, &references));
    CHECK(references == 2);
    OK(gpumem_allocator_release(allocator, other, &references));
    OK(gpumem_allocator_statistics(allocator, &statistics));
    CHECK(statistics.live.current_bytes == 1000 + 3 * MIB && statistics.tiers[1].current_bytes == 3 * MIB);
    CHECK(statistics.precisions[GPUMEM_PRECISION_BF16].current_bytes == 3 * MIB);
    OK(gpumem_allocator_free(allocator, other, GPUMEM_STREAM_HOME));
    OK(gpumem_allocator_free(allocator, block, 0));
    OK(gpumem_allocator_free(allocator, NULL, 0));
    OK(gpumem_allocator_alloc(allocator, 0, 0, 0, &nothing));
    CHECK(nothing != NULL);
    OK(gpumem_allocator_free(allocator, nothing, 0));
    OK(gpumem_allocator_step(allocator));
    OK(gpumem_allocator_check(allocator));
    OK(gpumem_allocator_trim(allocator, 0, &released));
    CHECK(released > 0);
    OK(gpumem_allocator_destroy(allocator));
}

static void mistakes_have_answers(void) {
    gpumem_allocator *allocator = make("device=host; capacity=64M");
    gpumem_allocator *other = NULL;
    gpumem_config config = GPUMEM_CONFIG_INIT;
    gpumem_tag tag = GPUMEM_TAG_INIT;
    void *block = NULL, *wanted = &block;
    config.settings = "capacity=64M; initial=1G";
    OK(gpumem_allocator_alloc(allocator, 5 * MIB, 0, 0, &block));
    IS(GPUMEM_STATUS_INTERIOR_POINTER, gpumem_allocator_free(allocator, (char *)block + 4096, 0));
    IS(GPUMEM_STATUS_FOREIGN_POINTER, gpumem_allocator_free(allocator, &allocator, 0));
    IS(GPUMEM_STATUS_INVALID_ARGUMENT, gpumem_allocator_alloc(allocator, 64, 48, 0, &wanted));
    CHECK(wanted == NULL);
    IS(GPUMEM_STATUS_INVALID_ARGUMENT, gpumem_allocator_alloc(allocator, UINT64_C(1) << 63, 0, 0, &wanted));
    IS(GPUMEM_STATUS_OUT_OF_MEMORY, gpumem_allocator_alloc(allocator, 100 * MIB, 0, 0, &wanted));
    CHECK(strstr(gpumem_last_error(), "What would help") != NULL);
    IS(GPUMEM_STATUS_INVALID_ARGUMENT, gpumem_allocator_alloc(allocator, 64, 0, 0, NULL));
    IS(GPUMEM_STATUS_INVALID_HANDLE, gpumem_allocator_alloc(NULL, 64, 0, 0, &wanted));
    IS(GPUMEM_STATUS_UNSUPPORTED, gpumem_allocator_check_guards(allocator));
    IS(GPUMEM_STATUS_INVALID_ARGUMENT, gpumem_allocator_alloc(allocator, 64, 0, GPUMEM_STREAM_HOME, &wanted));
    IS(GPUMEM_STATUS_INVALID_ARGUMENT, gpumem_allocator_record_use(allocator, block, GPUMEM_STREAM_ALL));
    IS(GPUMEM_STATUS_INVALID_ARGUMENT, gpumem_allocator_use_done(allocator, block, GPUMEM_STREAM_ALL));
    IS(GPUMEM_STATUS_INVALID_ARGUMENT, gpumem_allocator_stream_waited(allocator, GPUMEM_STREAM_ALL, 0));
    IS(GPUMEM_STATUS_INVALID_ARGUMENT, gpumem_allocator_event_recorded(allocator, 7, GPUMEM_STREAM_ALL));
    tag.values.op = 65536;
    IS(GPUMEM_STATUS_INVALID_ARGUMENT, gpumem_allocator_alloc_tagged(allocator, 64, 0, 0, &tag, &wanted));
    IS(GPUMEM_STATUS_CONFIGURATION, gpumem_allocator_create(NULL, &config, &other));
    CHECK(strstr(gpumem_last_error(), "`1G` in the call is no value for `initial`") != NULL);
    OK(gpumem_allocator_free(allocator, block, 0));
    IS(GPUMEM_STATUS_DOUBLE_FREE, gpumem_allocator_free(allocator, block, 0));
    OK(gpumem_allocator_check(allocator));
    OK(gpumem_allocator_destroy(allocator));
    IS(GPUMEM_STATUS_INVALID_HANDLE, gpumem_allocator_alloc(allocator, 64, 0, 0, &wanted));
}

struct spare {
    gpumem_allocator *allocator;
    void *block;
    int calls, drops;
};

static int32_t give_up_the_spare(const gpumem_shortage *shortage, void *data) {
    struct spare *spare = (struct spare *)data;
    CHECK(shortage->struct_size >= sizeof *shortage && shortage->requested_bytes == 50 * MIB);
    CHECK(strstr(shortage->text, "out of memory") != NULL);
    spare->calls++;
    if (spare->block == NULL) return 0;
    OK(gpumem_allocator_free(spare->allocator, spare->block, 0));
    spare->block = NULL;
    return 1;
}

static void count_drops(void *data) { ((struct spare *)data)->drops++; }

static void a_callback_may_free(void) {
    struct spare spare = {NULL, NULL, 0, 0};
    void *block = NULL, *more = NULL;
    gpumem_allocator *allocator = spare.allocator = make("device=host; capacity=64M");
    OK(gpumem_allocator_alloc(allocator, 40 * MIB, 0, 0, &spare.block));
    OK(gpumem_allocator_on_out_of_memory(allocator, give_up_the_spare, &spare, count_drops));
    OK(gpumem_allocator_alloc(allocator, 50 * MIB, 0, 0, &block));
    CHECK(spare.calls == 1 && spare.drops == 0);
    IS(GPUMEM_STATUS_OUT_OF_MEMORY, gpumem_allocator_alloc(allocator, 50 * MIB, 0, 0, &more));
    CHECK(spare.calls == 2);
    OK(gpumem_allocator_on_out_of_memory(allocator, NULL, NULL, NULL));
    CHECK(spare.drops == 1);
    IS(GPUMEM_STATUS_OUT_OF_MEMORY, gpumem_allocator_alloc(allocator, 50 * MIB, 0, 0, &more));
    CHECK(spare.calls == 2);
    OK(gpumem_allocator_on_out_of_memory(allocator, give_up_the_spare, &spare, count_drops));
    OK(gpumem_allocator_destroy(allocator));
    CHECK(spare.drops == 2);
}

static void an_overrun_is_found(void) {
    gpumem_allocator *allocator = make("device=host; capacity=64M; guard=on");
    void *block = NULL;
    OK(gpumem_allocator_alloc(allocator, 1000, 0, 0, &block));
    OK(gpumem_allocator_check_guards(allocator));
    ((unsigned char *)block)[1000] ^= 255;
    IS(GPUMEM_STATUS_OVERRUN, gpumem_allocator_check_guards(allocator));
    gpumem_allocator_free(allocator, block, 0);
    gpumem_allocator_destroy(allocator);
}

static void streams_follow_the_programs_order(void) {
    gpumem_device *device = NULL;
    gpumem_config config = GPUMEM_CONFIG_INIT;
    gpumem_allocator *allocator = NULL;
    gpumem_notice *notice = NULL;
    uint64_t stream = 0, event = 0;
    void *block = NULL;
    config.device = "host";
    config.capacity_bytes = 64 * MIB;
    OK(gpumem_device_create(&config, &device));
    OK(gpumem_allocator_create(device, NULL, &allocator));
    OK(gpumem_device_stream_create(device, &stream));
    OK(gpumem_device_event_create(device, &event));
    OK(gpumem_allocator_alloc(allocator, MIB, 0, 0, &block));
    OK(gpumem_allocator_record_use(allocator, block, stream));
    OK(gpumem_notice_record(allocator, event, stream, &notice));
    OK(gpumem_device_event_record(device, event, stream));
    OK(gpumem_notice_commit(allocator, notice));
    IS(GPUMEM_STATUS_INVALID_HANDLE, gpumem_notice_commit(allocator, notice));
    OK(gpumem_notice_wait(allocator, event, 0, &notice));
    OK(gpumem_notice_drop(notice));
    OK(gpumem_notice_drop(NULL));
    OK(gpumem_device_event_wait(device, event, 0));
    OK(gpumem_allocator_event_waited(allocator, event, 0));
    OK(gpumem_allocator_stream_waited(allocator, stream, 0));
    OK(gpumem_allocator_use_done(allocator, block, stream));
    OK(gpumem_allocator_free(allocator, block, GPUMEM_STREAM_HOME));
    OK(gpumem_device_synchronize(device));
    OK(gpumem_allocator_synchronized(allocator, GPUMEM_STREAM_ALL));
    OK(gpumem_allocator_event_destroyed(allocator, event));
    OK(gpumem_allocator_stream_destroyed(allocator, stream));
    OK(gpumem_allocator_check(allocator));
    OK(gpumem_device_event_destroy(device, event));
    OK(gpumem_device_stream_destroy(device, stream));
    OK(gpumem_device_destroy(device));
    OK(gpumem_allocator_alloc(allocator, MIB, 0, 0, &block));
    OK(gpumem_allocator_destroy(allocator));
}

static gpumem_tags *captured;

static void *go_on(void *allocator) {
    gpumem_block_info info = GPUMEM_BLOCK_INFO_INIT;
    void *block = NULL;
    OK(gpumem_tags_enter(captured));
    OK(gpumem_allocator_alloc(allocator, 64, 0, 0, &block));
    OK(gpumem_allocator_block(allocator, block, &info));
    CHECK(info.tag.owner == 42);
    OK(gpumem_tags_leave());
    IS(GPUMEM_STATUS_INVALID_STATE, gpumem_tags_leave());
    OK(gpumem_allocator_free(allocator, block, 0));
    return NULL;
}

static void tags_go_along_to_other_threads(void) {
    gpumem_allocator *allocator = make("device=sim");
    gpumem_tag tag = GPUMEM_TAG_INIT, now = GPUMEM_TAG_INIT;
    gpumem_block_info info = GPUMEM_BLOCK_INFO_INIT;
    pthread_t thread;
    void *block = NULL;
    int i;
    tag.values.owner = 42;
    IS(GPUMEM_STATUS_INVALID_STATE, gpumem_tag_pop());
    OK(gpumem_tag_push(&tag));
    OK(gpumem_tag_current(&now));
    CHECK(now.values.owner == 42);
    OK(gpumem_tags_capture(&captured));
    CHECK(pthread_create(&thread, NULL, go_on, allocator) == 0 && pthread_join(thread, NULL) == 0);
    OK(gpumem_tags_destroy(captured));
    OK(gpumem_tag_pop());
    for (i = 0; i < 300; i++) OK(gpumem_tag_push(&tag));
    tag.values.owner = 43;
    OK(gpumem_tag_push(&tag));
    OK(gpumem_tag_current(&now));
    CHECK(now.values.owner == 42);
    OK(gpumem_allocator_alloc_tagged(allocator, 64, 0, 0, &tag, &block));
    OK(gpumem_allocator_block(allocator, block, &info));
    CHECK(info.tag.owner == 43);
    for (i = 0; i < 301; i++) OK(gpumem_tag_pop());
    IS(GPUMEM_STATUS_INVALID_STATE, gpumem_tag_pop());
    OK(gpumem_allocator_destroy(allocator));
}

static void figures_and_files(void) {
    gpumem_allocator *allocator = make("device=sim; capacity=1G; op_pool.conv=4M");
    char path[64];
    char *text;
    size_t size = 0;
    void *block = NULL;
    FILE *file;
    unsigned char head[8];
    snprintf(path, sizeof path, "trace-%ld.gmtrace", (long)getpid());
    OK(gpumem_allocator_trace_start(allocator, path));
    OK(gpumem_allocator_alloc(allocator, 12345, 0, 0, &block));
    OK(gpumem_allocator_snapshot(allocator, NULL, 0, &size));
    text = malloc(size + 4096);
    CHECK(text != NULL);
    OK(gpumem_allocator_snapshot(allocator, text, size + 4096, &size));
    CHECK(strstr(text, "\"requested_bytes\":12345,\"state\":\"live\"") != NULL);
    OK(gpumem_allocator_statistics_json(allocator, NULL, 0, &size));
    text = realloc(text, size + 4096);
    CHECK(text != NULL);
    OK(gpumem_allocator_statistics_json(allocator, text, size + 4096, NULL));
    CHECK(strstr(text, "\"format\":\"gpumem-statistics/1\"") != NULL);
    OK(gpumem_allocator_settings(allocator, NULL, 0, &size));
    text = realloc(text, size);
    CHECK(text != NULL);
    OK(gpumem_allocator_settings(allocator, text, size, NULL));
    CHECK(strstr(text, "\"name\":\"op_pool.conv\",\"source\":\"the call\",\"value\":\"4M\"") != NULL);
    free(text);
    OK(gpumem_allocator_free(allocator, block, 0));
    OK(gpumem_allocator_trace_stop(allocator));
    file = fopen(path, "rb");
    CHECK(file != NULL && fread(head, 1, 8, file) == 8 && memcmp(head, "\x89GPUMEM\n", 8) == 0);
    fclose(file);
    OK(gpumem_allocator_snapshot_save(allocator, path));
    unlink(path);
    IS(GPUMEM_STATUS_IO, gpumem_allocator_trace_start(allocator, "no/such/folder/t"));
    OK(gpumem_allocator_budget_set(allocator, 8 * MIB, GPUMEM_UNSET));
    IS(GPUMEM_STATUS_OUT_OF_MEMORY, gpumem_allocator_alloc(allocator, 20 * MIB, 0, 0, &block));
    IS(GPUMEM_STATUS_INVALID_ARGUMENT, gpumem_allocator_budget_set(allocator, 8 * MIB, 9 * MIB));
    OK(gpumem_allocator_destroy(allocator));
}

static void the_default_allocator_is_everybodys(void) {
    gpumem_allocator *first = NULL, *second = NULL;
    gpumem_device *device = NULL;
    gpumem_device_info info = GPUMEM_DEVICE_INFO_INIT;
    OK(gpumem_allocator_default(&first));
    OK(gpumem_allocator_default(&second));
    CHECK(first == second);
    IS(GPUMEM_STATUS_INVALID_STATE, gpumem_allocator_destroy(first));
    OK(gpumem_allocator_device(first, &device));
    OK(gpumem_device_query(device, &info));
    CHECK(info.is_host_accessible == 1);
    OK(gpumem_device_destroy(device));
}

int main(void) {
    blocks_hold_bytes_and_come_back();
    mistakes_have_answers();
    a_callback_may_free();
    an_overrun_is_found();
    streams_follow_the_programs_order();
    tags_go_along_to_other_threads();
    figures_and_files();
    the_default_allocator_is_everybodys();
    return 0;
}

// Every handle: made, moved, moved onto itself, null, given up; both forms of each operation; what is thrown.
#include "check.hpp"

#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

using gpumem::status;

template <class T>
constexpr bool moves_only = std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T> &&
                            !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T>;
static_assert(moves_only<gpumem::device> && moves_only<gpumem::pool> && moves_only<gpumem::graph> &&
              moves_only<gpumem::plan> && moves_only<gpumem::captured_tags> && moves_only<gpumem::notice> &&
              moves_only<gpumem::stream> && moves_only<gpumem::event> && moves_only<gpumem::block>);
static_assert(!std::is_move_constructible_v<gpumem::tag_scope> && !std::is_move_constructible_v<gpumem::captured_scope>);

// A type that isn't known to the compiler to be the same object.
template <class T>
T &&same(T &object) {
    return std::move(object);
}

static void a_handle_has_one_owner() {
    gpumem::device device(on_host(64 * mib));
    CHECK(device && device.query().total_bytes == 64 * mib && device.name().size() > 0);
    gpumem_device *raw = device.get();
    gpumem::device moved(std::move(device));
    CHECK(!device && moved.get() == raw);
    IS(invalid_handle, device.try_query().status());
    THROWS(gpumem::error, device.query(), thrown.status() == status::invalid_handle);
    device = std::move(moved);
    CHECK(!moved && device.get() == raw);
    device = same(device);
    CHECK(device.get() == raw && device.query().total_bytes == 64 * mib);
    device = gpumem::device(on_host(32 * mib));
    CHECK(device.query().total_bytes == 32 * mib);
    // The one that was assigned to is gone.
    gpumem_device_info info = GPUMEM_DEVICE_INFO_INIT;
    CHECK(gpumem_device_query(raw, &info) == GPUMEM_STATUS_INVALID_HANDLE);
    gpumem::device owner(device.release());
    CHECK(!device && owner);
    owner.close();
    CHECK(!owner);
    owner.close();  // null is nothing
    owner.reset();
}

static void a_null_pool_refuses_everything() {
    gpumem::pool none;
    CHECK(!none);
    IS(invalid_handle, none.try_alloc(1).status());
    IS(invalid_handle, none.try_alloc(1, gpumem::tag{}).status());
    IS(invalid_handle, none.try_free(&none));
    IS(invalid_handle, none.try_make_block(1).status());
    IS(invalid_handle, none.try_device().status());
    IS(invalid_handle, none.try_statistics().status());
    IS(invalid_handle, none.try_statistics_json().status());
    IS(invalid_handle, none.try_trim().status());
    IS(invalid_handle, none.try_step());
    IS(invalid_handle, none.try_on_out_of_memory([](const gpumem_shortage &) { return false; }));
    IS(invalid_handle, none.try_on_out_of_memory(nullptr));
    IS(invalid_handle, none.try_notice_record(1, gpumem::default_stream).status());
    IS(invalid_handle, gpumem::stream_resource::try_make(none).status());
    IS(invalid_handle, gpumem::memory_resource(none, std::nothrow).status());
    IS(invalid_handle, gpumem::stream_resource().try_allocate(1).status());
    IS(invalid_handle, gpumem::stream_resource().try_allocate_async(1, 1, gpumem::default_stream).status());
    IS(invalid_handle, gpumem::pool::try_make(gpumem::device()).status());
    IS(invalid_handle, gpumem::graph().try_check());
    IS(invalid_handle, gpumem::plan().try_query().status());
    IS(invalid_handle, gpumem::plan::try_make(gpumem::graph()).status());
    IS(invalid_handle, gpumem::event().try_synchronize());
    IS(invalid_handle, gpumem::notice().try_commit());
    gpumem::captured_scope scope(gpumem::captured_tags(), std::nothrow);
    IS(invalid_handle, scope.status());
}

static void blocks_are_freed_by_whoever_owns_them() {
    gpumem::pool pool(on_host(64 * mib));
    const auto live = [&] { return pool.statistics().live.current_bytes; };
    {
        gpumem::block block = pool.make_block(3 * mib);
        std::memset(block.data(), 1, block.size());
        CHECK(live() == 3 * mib);
        gpumem::block other = std::move(block);
        CHECK(!block && block.size() == 0 && block.data() == nullptr && other.size() == 3 * mib && live() == 3 * mib);
        other = same(other);
        CHECK(other && live() == 3 * mib);
        other = pool.make_block(mib, gpumem::default_stream, 4096);
        CHECK(live() == mib && reinterpret_cast<std::uintptr_t>(other.data()) % 4096 == 0);
        block = std::move(other);
        CHECK(live() == mib);
        void *raw = block.release();
        CHECK(!block && live() == mib);
        pool.free(raw);
        CHECK(live() == 0);
        block = pool.make_block(5);
        block.free();
        CHECK(!block);
        block.free();
        block = pool.make_block(7);
    }
    CHECK(live() == 0);
    // The pool may be moved under them.
    gpumem::block block = pool.make_block(100);
    gpumem::pool elsewhere = std::move(pool);
    block.free();
    CHECK(elsewhere.statistics().live.current_bytes == 0);
    elsewhere.check();
    elsewhere.close();
}

static void mistakes_have_statuses_and_exceptions() {
    gpumem::pool pool(on_host(64 * mib));
    void *block = pool.alloc(5 * mib);
    int own = 0;
    IS(interior_pointer, pool.try_free(static_cast<char *>(block) + 4096));
    IS(foreign_pointer, pool.try_free(&own));
    IS(invalid_argument, pool.try_alloc(64, gpumem::default_stream, 48).status());
    IS(unsupported, pool.try_check_guards());
    CHECK(pool.try_alloc(100 * mib).value() == nullptr);
    pool.free(block);
    pool.free(nullptr);
    THROWS(gpumem::error, pool.free(block), thrown.status() == status::double_free);
    THROWS(std::runtime_error, pool.free(block), std::strlen(thrown.what()) > 0);
    THROWS(std::exception, pool.free(block), std::strlen(thrown.what()) > 0);
    THROWS(gpumem::failure, pool.free(block), thrown.status() == status::double_free);
    const auto too_much = [&] { return pool.alloc(100 * mib); };
    THROWS(gpumem::out_of_memory, too_much(), std::strstr(thrown.what(), "What would help") != nullptr);
    THROWS(std::bad_alloc, too_much(), std::strstr(thrown.what(), "What would help") != nullptr);
    THROWS(std::exception, too_much(), std::strstr(thrown.what(), "What would help") != nullptr);
    THROWS(gpumem::failure, too_much(), thrown.status() == status::out_of_memory && thrown.message()[0] != 0);
    try {
        (void)too_much();
    } catch (gpumem::out_of_memory &thrown) {
        const gpumem::out_of_memory copy = thrown;  // outlives the next error of this thread
        IS(double_free, pool.try_free(block));
        CHECK(std::strstr(copy.what(), "What would help") != nullptr && !copy.cause());
    }
}

static void settings_and_files() {
    gpumem::config config = on_host(64 * mib, "op_pool.conv=4M");
    config.hard_budget_bytes = 32 * mib;
    config.guard = true;
    CHECK(gpumem::settings(config).find("\"name\":\"guard\",\"source\":\"the call\",\"value\":\"on\"") != std::string::npos);
    gpumem::pool pool(config);
    CHECK(pool.settings().find("\"value\":\"33554432\"") != std::string::npos);
    CHECK(pool.statistics_json().find("gpumem-statistics/1") != std::string::npos);
    CHECK(pool.snapshot().find("gpumem-snapshot/1") != std::string::npos);
    CHECK(pool.snapshot().find('\0') == std::string::npos);
    pool.start_trace("cpp-test.trace");
    (void)pool.make_block(1000);
    pool.stop_trace();
    pool.save_snapshot("cpp-test.snapshot.json");
    IS(io, pool.try_save_snapshot("no such folder/snapshot.json"));
    void *block = pool.alloc(100);
    static_cast<unsigned char *>(block)[100] ^= 255;
    IS(overrun, pool.try_check_guards());
    static_cast<unsigned char *>(block)[100] ^= 255;
    pool.check_guards();
    pool.free(block);
    pool.step();
    pool.check();
    config.settings = "hard_buget=1G";
    THROWS(gpumem::error, gpumem::pool(config), thrown.status() == status::configuration);
    IS(configuration, gpumem::try_settings(config).status());
    config = {};
    config.device = "cuda9";
    IS(not_found, gpumem::device::try_make(config).status());
}

static void the_pool_of_the_process_stays() {
    gpumem_allocator *raw = nullptr;
    {
        gpumem::pool pool = gpumem::pool::of_process();
        raw = pool.get();
        CHECK(pool.make_block(100));
    }
    gpumem::pool again = gpumem::pool::of_process();
    CHECK(again.get() == raw);
    again.close();
    CHECK(!again && gpumem::pool::of_process().make_block(100));
}

static void streams_and_events() {
    gpumem::device device(on_host(64 * mib));
    gpumem::pool pool(device);
    {
        gpumem::stream stream(device, pool);
        gpumem::event event(device, pool);
        CHECK(stream && stream.number() != 0);
        gpumem::block from = pool.make_block(mib), to = pool.make_block(mib, stream);
        std::memset(from.data(), 3, mib);
        pool.record_use(from.data(), stream);
        device.copy(to.data(), from.data(), mib, stream);
        pool.record(event, stream);
        pool.wait(event, gpumem::default_stream);
        from.free();
        device.synchronize(stream);
        CHECK(device.is_finished(stream) && event.has_happened());
        pool.synchronized(stream);
        unsigned char last = 0;
        device.read(static_cast<char *>(to.data()) + mib - 1, &last, 1);
        CHECK(last == 3);
        last = 4;
        device.write(to.data(), &last, 1);
        CHECK(static_cast<unsigned char *>(to.data())[0] == 4);
        gpumem::notice notice = pool.notice_wait(event.number(), stream);
        gpumem::notice moved = std::move(notice);
        CHECK(!notice && moved);
        moved.commit();
        CHECK(!moved);
        (void)pool.notice_synchronize(stream);  // dropped
        gpumem::stream other = std::move(stream);
        CHECK(!stream && other);
        other = same(other);
        CHECK(other);
        device.synchronize(other);
        stream = std::move(other);
        device.synchronize(stream);
        pool.stream_waited(stream, gpumem::default_stream);
        pool.event_synchronized(event.number());
        pool.work_queued(stream);
    }
    pool.synchronized();
    pool.check();
    IS(invalid_argument, device.try_synchronize(gpumem::stream_ref(std::uint64_t{12345})));
}

static void references_are_counted() {
    gpumem::pool pool(on_host(64 * mib));
    void *block = pool.alloc(1000);
    CHECK(pool.retain(block) == 2 && pool.block_info(block).references == 2);
    CHECK(pool.release_reference(block) == 1 && pool.statistics().live.current_bytes == 1000);
    CHECK(pool.release_reference(block) == 0 && pool.statistics().live.current_bytes == 0);
    CHECK(pool.trim() > 0);
}

static void tags_follow_scopes() {
    gpumem::pool pool(on_host(64 * mib));
    const gpumem::tag weights{gpumem::tier::persistent, gpumem::precision::bf16, gpumem::op_number("matmul"), 7};
    CHECK(gpumem::op_number("matmul") == weights.op && weights.op != 0);
    {
        gpumem::tag_scope scope(weights);
        {
            gpumem::tag_scope inner(gpumem::tag{gpumem::tier::cyclic, {}, 0, 8});
            CHECK(gpumem::current_tag().owner == 8);
        }
        CHECK(gpumem::current_tag().owner == 7 && gpumem::current_tag().tier == gpumem::tier::persistent);
        gpumem::block block = pool.make_block(100);
        CHECK(pool.block_info(block.data()).tag.op == weights.op);
        CHECK(pool.statistics().tiers[2].current_bytes == 100);
        gpumem::captured_tags captured = gpumem::captured_tags::capture();
        gpumem::tag_scope other(gpumem::tag{});
        CHECK(gpumem::current_tag().owner == 0);
        {
            gpumem::captured_scope entered(captured);
            CHECK(gpumem::current_tag().owner == 7);
        }
        CHECK(gpumem::current_tag().owner == 0);
        gpumem::block tagged = pool.make_block(100, weights);
        CHECK(pool.block_info(tagged.data()).tag.owner == 7 && gpumem::current_tag().owner == 0);
    }
    CHECK(gpumem::current_tag().owner == 0);
    const auto bad = static_cast<gpumem::tier>(99);
    THROWS(gpumem::error, gpumem::tag_scope(gpumem::tag{bad, {}, 0, 0}), thrown.status() == status::invalid_argument);
    IS(invalid_argument, gpumem::tag_scope(gpumem::tag{bad, {}, 0, 0}, std::nothrow).status());
}

int main() {
    CHECK(gpumem_version() == GPUMEM_VERSION);
    a_handle_has_one_owner();
    a_null_pool_refuses_everything();
    blocks_are_freed_by_whoever_owns_them();
    mistakes_have_statuses_and_exceptions();
    settings_and_files();
    the_pool_of_the_process_stays();
    streams_and_events();
    references_are_counted();
    tags_follow_scopes();
    return 0;
}

// Pools: what gpumem.h calls an allocator, a word that means something else in C++. Part of gpumem.hpp; include that.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#ifndef GPUMEM_HPP_POOL
#define GPUMEM_HPP_POOL

#include "block.hpp"
#include "device.hpp"
#include "tags.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace gpumem {
inline namespace GPUMEM_HPP_ABI {

namespace detail {

/// The process's own pool, which is never destroyed; null until somebody asked for it.
inline std::atomic<gpumem_allocator *> process_pool{nullptr};

inline gpumem_status destroy_pool(gpumem_allocator *raw) {
    if (raw != nullptr && raw == process_pool.load(std::memory_order_relaxed)) return GPUMEM_STATUS_OK;
    return gpumem_allocator_destroy(raw);
}

}  // namespace detail

/// Hands out memory of a device. All functions may be called from several threads at once.
class pool : public detail::handle<gpumem_allocator, detail::destroy_pool> {
public:
    /// Asked before a request fails, on the thread that asked and outside every lock: it may allocate, free and trim.
    /// Returns true to have the request tried again. If it throws, the request fails, and the exception of the throwing
    /// form has what was thrown as its `cause`. Several threads may call it at once.
    using out_of_memory_callback = std::function<bool(const gpumem_shortage &)>;

    using handle::handle;
    pool() noexcept = default;
    /// A pool on a device of its own, which `config` names.
    explicit pool(const config &config) : pool(try_make(config).take()) {}
    /// A pool on a device, whose handle may go any time.
    explicit pool(const gpumem::device &device, const config &config = {}) : pool(try_make(device, config).take()) {}
    static result<pool> try_make(const config &config) noexcept { return make(nullptr, config); }
    static result<pool> try_make(const gpumem::device &device, const config &config = {}) noexcept {
        if (!device) return status::invalid_handle;
        return make(device.get(), config);
    }

    /// The process's own pool, shared by all parts of the program. Destroying the object leaves the pool as it is.
    static result<pool> try_of_process() noexcept {
        gpumem_allocator *raw = nullptr;
        const gpumem_status answer = gpumem_allocator_default(&raw);
        if (answer != GPUMEM_STATUS_OK) return static_cast<status>(answer);
        detail::process_pool.store(raw, std::memory_order_relaxed);
        return pool(raw);
    }
    static pool of_process() { return try_of_process().take(); }

    /// The device it is on.
    result<gpumem::device> try_device() const noexcept {
        gpumem_device *made = nullptr;
        const gpumem_status answer = gpumem_allocator_device(get(), &made);
        return {answer, gpumem::device(made)};
    }
    gpumem::device device() const { return try_device().take(); }

    /// Memory for work that is queued on the stream from now on. Alignments below 512 are 512.
    [[nodiscard]] result<void *> try_alloc(std::uint64_t bytes, stream_ref stream = default_stream,
                                           std::uint64_t alignment = 0) const noexcept {
        void *block = nullptr;
        const gpumem_status answer = detail::alloc(get(), bytes, alignment, stream, &block);
        return detail::try_block(answer, block);
    }
    [[nodiscard]] void *alloc(std::uint64_t bytes, stream_ref stream = default_stream,
                              std::uint64_t alignment = 0) const {
        void *block = nullptr;
        const gpumem_status answer = detail::alloc(get(), bytes, alignment, stream, &block);
        return detail::block_or_throw(answer, block);
    }
    /// The same with a tag for this request alone.
    [[nodiscard]] result<void *> try_alloc(std::uint64_t bytes, const tag &tag, stream_ref stream = default_stream,
                                           std::uint64_t alignment = 0) const noexcept {
        void *block = nullptr;
        const gpumem_status answer = alloc_tagged(bytes, tag, stream, alignment, &block);
        return detail::try_block(answer, block);
    }
    [[nodiscard]] void *alloc(std::uint64_t bytes, const tag &tag, stream_ref stream = default_stream,
                              std::uint64_t alignment = 0) const {
        void *block = nullptr;
        const gpumem_status answer = alloc_tagged(bytes, tag, stream, alignment, &block);
        return detail::block_or_throw(answer, block);
    }

    /// Drops a block, or one of its references; null is nothing. Makes no driver call.
    status try_free(void *block, stream_ref stream = home_stream) const noexcept {
        return detail::free(get(), block, stream);
    }
    void free(void *block, stream_ref stream = home_stream) const { detail::require(try_free(block, stream)); }

    /// The same as `alloc`, with an owner.
    [[nodiscard]] result<block> try_make_block(std::uint64_t bytes, stream_ref stream = default_stream,
                                               std::uint64_t alignment = 0) const noexcept {
        const result<void *> made = try_alloc(bytes, stream, alignment);
        if (!made) return made.status();
        return block(get(), *made, bytes);
    }
    [[nodiscard]] block make_block(std::uint64_t bytes, stream_ref stream = default_stream,
                                   std::uint64_t alignment = 0) const {
        return block(get(), alloc(bytes, stream, alignment), bytes);
    }
    [[nodiscard]] result<block> try_make_block(std::uint64_t bytes, const tag &tag, stream_ref stream = default_stream,
                                               std::uint64_t alignment = 0) const noexcept {
        const result<void *> made = try_alloc(bytes, tag, stream, alignment);
        if (!made) return made.status();
        return block(get(), *made, bytes);
    }
    [[nodiscard]] block make_block(std::uint64_t bytes, const tag &tag, stream_ref stream = default_stream,
                                   std::uint64_t alignment = 0) const {
        return block(get(), alloc(bytes, tag, stream, alignment), bytes);
    }

    /// Work of the stream also uses the block: all of it that is queued by the time of the free.
    status try_record_use(void *block, stream_ref stream) const noexcept {
        return static_cast<status>(gpumem_allocator_record_use(get(), block, stream.number()));
    }
    void record_use(void *block, stream_ref stream) const { detail::require(try_record_use(block, stream)); }

    /// What the stream has queued so far is its last use of the block.
    status try_use_done(void *block, stream_ref stream) const noexcept {
        return static_cast<status>(gpumem_allocator_use_done(get(), block, stream.number()));
    }
    void use_done(void *block, stream_ref stream) const { detail::require(try_use_done(block, stream)); }

    /// One reference more; how many there are then.
    result<std::uint32_t> try_retain(void *block) const noexcept {
        std::uint32_t references = 0;
        const gpumem_status answer = gpumem_allocator_retain(get(), block, &references);
        return {answer, references};
    }
    std::uint32_t retain(void *block) const { return try_retain(block).take(); }

    /// One reference less, with the last one the block; how many are left.
    result<std::uint32_t> try_release_reference(void *block) const noexcept {
        detail::handed_back(get(), block);
        std::uint32_t references = 0;
        const gpumem_status answer = gpumem_allocator_release(get(), block, &references);
        return {answer, references};
    }
    std::uint32_t release_reference(void *block) const { return try_release_reference(block).take(); }

    result<gpumem_block_info> try_block_info(const void *block) const noexcept {
        gpumem_block_info info = GPUMEM_BLOCK_INFO_INIT;
        const gpumem_status answer = gpumem_allocator_block(get(), block, &info);
        return {answer, info};
    }
    gpumem_block_info block_info(const void *block) const { return try_block_info(block).take(); }

    // What the program does with streams. Events are known by a number, such as `event::number()`.

    /// `by` was made to wait for all that `of` has queued.
    status try_stream_waited(stream_ref of, stream_ref by) const noexcept {
        return static_cast<status>(gpumem_allocator_stream_waited(get(), of.number(), by.number()));
    }
    void stream_waited(stream_ref of, stream_ref by) const { detail::require(try_stream_waited(of, by)); }
    status try_event_recorded(std::uint64_t event, stream_ref stream) const noexcept {
        return static_cast<status>(gpumem_allocator_event_recorded(get(), event, stream.number()));
    }
    void event_recorded(std::uint64_t event, stream_ref stream) const {
        detail::require(try_event_recorded(event, stream));
    }
    status try_event_waited(std::uint64_t event, stream_ref stream) const noexcept {
        return static_cast<status>(gpumem_allocator_event_waited(get(), event, stream.number()));
    }
    void event_waited(std::uint64_t event, stream_ref stream) const { detail::require(try_event_waited(event, stream)); }
    status try_event_synchronized(std::uint64_t event) const noexcept {
        return static_cast<status>(gpumem_allocator_event_synchronized(get(), event));
    }
    void event_synchronized(std::uint64_t event) const { detail::require(try_event_synchronized(event)); }
    status try_event_destroyed(std::uint64_t event) const noexcept {
        return static_cast<status>(gpumem_allocator_event_destroyed(get(), event));
    }
    void event_destroyed(std::uint64_t event) const { detail::require(try_event_destroyed(event)); }
    status try_stream_destroyed(stream_ref stream) const noexcept {
        return static_cast<status>(gpumem_allocator_stream_destroyed(get(), stream.number()));
    }
    void stream_destroyed(stream_ref stream) const { detail::require(try_stream_destroyed(stream)); }
    /// The host waited for a stream, or for all.
    status try_synchronized(stream_ref stream = all_streams) const noexcept {
        return static_cast<status>(gpumem_allocator_synchronized(get(), stream.number()));
    }
    void synchronized(stream_ref stream = all_streams) const { detail::require(try_synchronized(stream)); }
    status try_work_queued(stream_ref stream) const noexcept {
        return static_cast<status>(gpumem_allocator_work_queued(get(), stream.number()));
    }
    void work_queued(stream_ref stream) const { detail::require(try_work_queued(stream)); }

    // The same as notices, taken before the driver's call.

    result<notice> try_notice_record(std::uint64_t event, stream_ref stream) const noexcept {
        return notice_of(gpumem_notice_record, event, stream.number());
    }
    notice notice_record(std::uint64_t event, stream_ref stream) const { return try_notice_record(event, stream).take(); }
    result<notice> try_notice_unmodelled_record(std::uint64_t event) const noexcept {
        return notice_of(gpumem_notice_unmodelled_record, event);
    }
    notice notice_unmodelled_record(std::uint64_t event) const { return try_notice_unmodelled_record(event).take(); }
    result<notice> try_notice_wait(std::uint64_t event, stream_ref stream) const noexcept {
        return notice_of(gpumem_notice_wait, event, stream.number());
    }
    notice notice_wait(std::uint64_t event, stream_ref stream) const { return try_notice_wait(event, stream).take(); }
    result<notice> try_notice_stream_wait(stream_ref of, stream_ref by) const noexcept {
        return notice_of(gpumem_notice_stream_wait, of.number(), by.number());
    }
    notice notice_stream_wait(stream_ref of, stream_ref by) const { return try_notice_stream_wait(of, by).take(); }
    result<notice> try_notice_event_synchronize(std::uint64_t event) const noexcept {
        return notice_of(gpumem_notice_event_synchronize, event);
    }
    notice notice_event_synchronize(std::uint64_t event) const { return try_notice_event_synchronize(event).take(); }
    result<notice> try_notice_synchronize(stream_ref stream) const noexcept {
        return notice_of(gpumem_notice_synchronize, stream.number());
    }
    notice notice_synchronize(stream_ref stream) const { return try_notice_synchronize(stream).take(); }

    /// Records an event on its device, and the pool knows.
    status try_record(const event &event, stream_ref stream) const noexcept {
        return noticed(try_notice_record(event.number(), stream), [&] { return event.try_record(stream); });
    }
    void record(const event &event, stream_ref stream) const { detail::require(try_record(event, stream)); }
    /// Makes a stream wait for an event on its device, and the pool knows.
    status try_wait(const event &event, stream_ref stream) const noexcept {
        return noticed(try_notice_wait(event.number(), stream), [&] { return event.try_wait(stream); });
    }
    void wait(const event &event, stream_ref stream) const { detail::require(try_wait(event, stream)); }

    // Upkeep.

    /// Who is asked before a request fails, in place of whoever was; an empty function is nobody. Kept until no thread is
    /// in it any more.
    status try_on_out_of_memory(out_of_memory_callback callback) const noexcept {
        if (!callback) {
            return static_cast<status>(gpumem_allocator_on_out_of_memory(get(), nullptr, nullptr, nullptr));
        }
        auto kept = std::make_unique<out_of_memory_callback>(std::move(callback));
        detail::passed_on(kept.get());
        const gpumem_status answer = gpumem_allocator_on_out_of_memory(get(), &ask, kept.get(), &drop);
        if (answer == GPUMEM_STATUS_OK) (void)kept.release();  // from now on `drop` is called for it
        return static_cast<status>(answer);
    }
    void on_out_of_memory(out_of_memory_callback callback) const {
        detail::require(try_on_out_of_memory(std::move(callback)));
    }

    /// A step of the program has ended.
    status try_step() const noexcept { return static_cast<status>(gpumem_allocator_step(get())); }
    void step() const { detail::require(try_step()); }

    /// Gives idle memory back until at most `keep_bytes` are held; how much went.
    result<std::uint64_t> try_trim(std::uint64_t keep_bytes = 0) const noexcept {
        std::uint64_t released = 0;
        const gpumem_status answer = gpumem_allocator_trim(get(), keep_bytes, &released);
        return {answer, released};
    }
    std::uint64_t trim(std::uint64_t keep_bytes = 0) const { return try_trim(keep_bytes).take(); }

    /// Most bytes held from the device, and bytes above which idle memory is given back first; `unset` is no bound.
    status try_set_budget(std::uint64_t hard_bytes, std::uint64_t soft_bytes = unset) const noexcept {
        return static_cast<status>(gpumem_allocator_budget_set(get(), hard_bytes, soft_bytes));
    }
    void set_budget(std::uint64_t hard_bytes, std::uint64_t soft_bytes = unset) const {
        detail::require(try_set_budget(hard_bytes, soft_bytes));
    }

    /// Verifies the pool's own state.
    status try_check() const noexcept { return static_cast<status>(gpumem_allocator_check(get())); }
    void check() const { detail::require(try_check()); }

    /// Looks whether bytes around live blocks were written; needs the setting `guard`.
    status try_check_guards() const noexcept { return static_cast<status>(gpumem_allocator_check_guards(get())); }
    void check_guards() const { detail::require(try_check_guards()); }

    status try_start_trace(const char *path) const noexcept {
        return static_cast<status>(gpumem_allocator_trace_start(get(), path));
    }
    void start_trace(const char *path) const { detail::require(try_start_trace(path)); }
    status try_stop_trace() const noexcept { return static_cast<status>(gpumem_allocator_trace_stop(get())); }
    void stop_trace() const { detail::require(try_stop_trace()); }

    // Figures.

    result<gpumem_statistics> try_statistics() const noexcept {
        gpumem_statistics statistics = GPUMEM_STATISTICS_INIT;
        const gpumem_status answer = gpumem_allocator_statistics(get(), &statistics);
        return {answer, statistics};
    }
    gpumem_statistics statistics() const { return try_statistics().take(); }
    /// The same and more, gpumem-statistics/1.
    result<std::string> try_statistics_json() const noexcept { return text_of(gpumem_allocator_statistics_json); }
    std::string statistics_json() const { return try_statistics_json().take(); }
    /// All segments and blocks, gpumem-snapshot/1.
    result<std::string> try_snapshot() const noexcept { return text_of(gpumem_allocator_snapshot); }
    std::string snapshot() const { return try_snapshot().take(); }
    status try_save_snapshot(const char *path) const noexcept {
        return static_cast<status>(gpumem_allocator_snapshot_save(get(), path));
    }
    void save_snapshot(const char *path) const { detail::require(try_save_snapshot(path)); }
    /// Every setting with its source.
    result<std::string> try_settings() const noexcept { return text_of(gpumem_allocator_settings); }
    std::string settings() const { return try_settings().take(); }

private:
    static result<pool> make(const gpumem_device *device, const config &config) noexcept {
        const gpumem_config raw = config.view();
        gpumem_allocator *made = nullptr;
        const gpumem_status answer = gpumem_allocator_create(device, &raw, &made);
        return {answer, pool(made)};
    }
    gpumem_status alloc_tagged(std::uint64_t bytes, const tag &tag, stream_ref stream, std::uint64_t alignment,
                               void **block) const noexcept {
        const gpumem_tag raw = tag.view();
        const gpumem_status answer =
            gpumem_allocator_alloc_tagged(get(), bytes, alignment, stream.number(), &raw, block);
        if (answer == GPUMEM_STATUS_OK) detail::handed_out(*block, bytes);
        return answer;
    }
    template <class Take, class... Numbers>
    result<notice> notice_of(Take take, Numbers... numbers) const noexcept {
        gpumem_notice *raw = nullptr;
        const gpumem_status answer = take(get(), numbers..., &raw);
        return {answer, notice(get(), raw)};
    }
    template <class Call>
    static status noticed(result<notice> taken, Call call) noexcept {
        if (!taken) return taken.status();
        if (const status answer = call(); answer != status::ok) return answer;
        return taken->try_commit();
    }
    template <class Write>
    result<std::string> text_of(Write write) const noexcept {
        return detail::text([this, write](char *to, std::size_t capacity, std::size_t *size) {
            return write(get(), to, capacity, size);
        });
    }
    static std::int32_t ask(const gpumem_shortage *shortage, void *data) noexcept {
        detail::taken_over(data);
        detail::thrown() = nullptr;
        const auto &callback = *static_cast<const out_of_memory_callback *>(data);
        const std::int32_t answer = detail::guarded([&] { return callback(*shortage) ? 1 : 0; }, 0);
        detail::passed_on(data);
        return answer;
    }
    static void drop(void *data) noexcept {
        detail::taken_over(data);
        delete static_cast<out_of_memory_callback *>(data);
    }
};

inline stream::stream(const device &device, const pool &told) : stream(try_make(device, told).take()) {}
inline result<stream> stream::try_make(const device &device, const pool &told) noexcept {
    return make(device, told.get());
}
inline event::event(const device &device, const pool &told) : event(try_make(device, told).take()) {}
inline result<event> event::try_make(const device &device, const pool &told) noexcept {
    return make(device, told.get());
}

}  // namespace GPUMEM_HPP_ABI
}  // namespace gpumem

#endif

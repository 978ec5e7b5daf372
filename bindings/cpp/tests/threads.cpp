// 16 threads: each with blocks of its own, blocks freed by others, containers, tags, streams; nobody writes into another's.
#include "check.hpp"

#include <atomic>
#include <cstring>
#include <memory_resource>
#include <mutex>
#include <numeric>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

constexpr int thread_count = 16;

template <class Work>
static void on_threads(Work work) {
    std::vector<std::thread> threads;
    for (int i = 0; i < thread_count; ++i) threads.emplace_back([&work, i] { work(i); });
    for (std::thread &thread : threads) thread.join();
}

static void fill(const gpumem::block &block, int mark) {
    std::memset(block.data(), mark, block.size());
}
static bool holds(const gpumem::block &block, int mark) {
    const auto *bytes = static_cast<const unsigned char *>(block.data());
    for (std::uint64_t i = 0; i < block.size(); ++i) {
        if (bytes[i] != mark) return false;
    }
    return true;
}

static void blocks_are_freed_by_other_threads(const gpumem::pool &pool) {
    struct parcel {
        gpumem::block block;
        int mark;
    };
    std::mutex mutex;
    std::vector<parcel> parcels;
    on_threads([&](int thread) {
        std::uint64_t state = static_cast<std::uint64_t>(thread) + 1;
        for (int i = 0; i < 300; ++i) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            parcel made{pool.make_block(1 + (state >> 33) % 5000), thread + 1};
            fill(made.block, made.mark);
            parcel taken{};
            {
                const std::lock_guard<std::mutex> lock(mutex);
                parcels.push_back(std::move(made));
                std::swap(parcels[(state >> 20) % parcels.size()], parcels.back());
                if (parcels.size() > 50) {
                    taken = std::move(parcels.back());
                    parcels.pop_back();
                }
            }
            if (taken.block) CHECK(holds(taken.block, taken.mark));
        }
    });
    for (const parcel &left : parcels) CHECK(holds(left.block, left.mark));
}

static void containers_share_a_resource(const gpumem::pool &pool) {
    gpumem::memory_resource resource(pool);
    on_threads([&](int thread) {
        for (int round = 0; round < 5; ++round) {
            std::vector<int, gpumem::allocator<int>> numbers{gpumem::allocator<int>(resource)};
            for (int i = 0; i < 5000; ++i) numbers.push_back(i ^ thread);
            std::pmr::unordered_map<int, std::pmr::vector<int>> map(&resource);
            for (int i = 0; i < 50; ++i) map[i].assign(20, thread);
            for (int i = 0; i < 5000; ++i) CHECK(numbers[static_cast<std::size_t>(i)] == (i ^ thread));
            for (const auto &entry : map) CHECK(std::accumulate(entry.second.begin(), entry.second.end(), 0) == 20 * thread);
        }
    });
}

static void tags_belong_to_their_thread(const gpumem::pool &pool) {
    gpumem::tag_scope outer(gpumem::tag{gpumem::tier::cyclic, {}, 0, 1000});
    const gpumem::captured_tags captured = gpumem::captured_tags::capture();
    on_threads([&](int thread) {
        CHECK(gpumem::current_tag().owner == 0);
        const gpumem::captured_scope entered(captured);
        CHECK(gpumem::current_tag().owner == 1000);
        const auto owner = static_cast<std::uint32_t>(thread + 1);
        const gpumem::tag_scope scope(gpumem::tag{gpumem::tier::temporary, {}, 0, owner});
        for (int i = 0; i < 50; ++i) {
            const gpumem::block block = pool.make_block(100);
            CHECK(pool.block_info(block.data()).tag.owner == owner);
        }
    });
}

static void streams_run_side_by_side(const gpumem::device &device, const gpumem::pool &pool) {
    on_threads([&](int thread) {
        gpumem::stream stream(device, pool);
        gpumem::event event(device, pool);
        gpumem::stream_resource resource(pool);
        for (int i = 0; i < 10; ++i) {
            gpumem::block from = pool.make_block(10000, stream);
            fill(from, thread + 1);
            void *to = resource.allocate_async(10000, stream);
            device.copy(to, from.data(), 10000, stream);
            pool.record(event, stream);
            event.synchronize();
            pool.event_synchronized(event.number());
            unsigned char last = 0;
            device.read(static_cast<char *>(to) + 9999, &last, 1);
            CHECK(last == thread + 1);
            resource.deallocate_async(to, 10000, stream);
        }
        device.synchronize(stream);
        pool.synchronized(stream);
    });
}

static void errors_are_those_of_the_thread(const gpumem::pool &pool) {
    on_threads([&](int thread) {
        for (int i = 0; i < 20; ++i) {
            if (thread % 2 == 0) {
                THROWS(gpumem::out_of_memory, pool.alloc(std::uint64_t{1} << 40), thrown.what()[0] != 0);
            } else {
                THROWS(gpumem::error, pool.free(&i), thrown.status() == gpumem::status::foreign_pointer);
            }
        }
    });
}

int main() {
    gpumem::device device(on_host(512 * mib));
    gpumem::pool pool(device);
    blocks_are_freed_by_other_threads(pool);
    containers_share_a_resource(pool);
    tags_belong_to_their_thread(pool);
    streams_run_side_by_side(device, pool);
    errors_are_those_of_the_thread(pool);
    CHECK(pool.statistics().live.current_bytes == 0);
    pool.check();
    return 0;
}

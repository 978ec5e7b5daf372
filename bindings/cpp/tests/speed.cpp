// What the layer adds to the C functions: ns of the thread's time for a request and its free, each way in turn, the best
// of all rounds.
#include "check.hpp"

#include <algorithm>
#include <ctime>
#include <vector>

static double now_ns() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

template <class Pair>
static double ns_of(Pair pair) {
    constexpr int pairs = 100000;
    const double start = now_ns();
    for (int i = 0; i < pairs; ++i) pair();
    return (now_ns() - start) / pairs;
}

static double best(const std::vector<double> &all) { return *std::min_element(all.begin(), all.end()); }

int main(int count, char **arguments) {
    const int rounds = count > 1 ? std::atoi(arguments[1]) : 3;
    gpumem::pool pool(on_host(256 * mib));
    gpumem::memory_resource resource(pool);
    gpumem::stream_resource ordered(pool);
    gpumem_allocator *raw = pool.get();
    std::vector<double> c, c_async, throwing, status, owner, pmr, async;
    for (int round = 0; round < rounds; ++round) {
        c.push_back(ns_of([&] {
            void *block = nullptr;
            if (gpumem_allocator_alloc(raw, 1000, 0, 0, &block) != GPUMEM_STATUS_OK) std::abort();
            if (gpumem_allocator_free(raw, block, GPUMEM_STREAM_HOME) != GPUMEM_STATUS_OK) std::abort();
        }));
        c_async.push_back(ns_of([&] {
            void *block = nullptr;
            if (gpumem_allocator_alloc(raw, 1000, 0, 0, &block) != GPUMEM_STATUS_OK) std::abort();
            if (gpumem_allocator_free(raw, block, 0) != GPUMEM_STATUS_OK) std::abort();
        }));
        throwing.push_back(ns_of([&] { pool.free(pool.alloc(1000)); }));
        status.push_back(ns_of([&] {
            if (pool.try_free(*pool.try_alloc(1000)) != gpumem::status::ok) std::abort();
        }));
        owner.push_back(ns_of([&] { (void)pool.make_block(1000); }));
        pmr.push_back(ns_of([&] { resource.deallocate(resource.allocate(1000), 1000); }));
        async.push_back(ns_of([&] {
            ordered.deallocate_async(ordered.allocate_async(1000, gpumem::default_stream), 1000, gpumem::default_stream);
        }));
    }
    std::printf("ns for a request and its free: C %.1f, throwing %.1f, status %.1f, block %.1f, pmr %.1f; "
                "freed on a stream: C %.1f, async %.1f\n",
                best(c), best(throwing), best(status), best(owner), best(pmr), best(c_async), best(async));
    CHECK(pool.statistics().live.current_bytes == 0);
    return 0;
}

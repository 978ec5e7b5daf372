// What the layer adds to the C functions: ns for a pair of a request and its free, each way in turn, medians.
#include "check.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

template <class Pair>
static double ns_of(Pair pair) {
    constexpr int pairs = 100000;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < pairs; ++i) pair();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    return took.count() / pairs;
}

static double median(std::vector<double> all) {
    std::sort(all.begin(), all.end());
    return all[all.size() / 2];
}

int main(int count, char **arguments) {
    const int rounds = count > 1 ? std::atoi(arguments[1]) : 3;
    gpumem::pool pool(on_host(256 * mib));
    gpumem::memory_resource resource(pool);
    gpumem::stream_resource ordered(pool);
    gpumem_allocator *raw = pool.get();
    std::vector<double> c, throwing, status, owner, pmr, async;
    for (int round = 0; round < rounds; ++round) {
        c.push_back(ns_of([&] {
            void *block = nullptr;
            if (gpumem_allocator_alloc(raw, 1000, 0, 0, &block) != GPUMEM_STATUS_OK) std::abort();
            if (gpumem_allocator_free(raw, block, GPUMEM_STREAM_HOME) != GPUMEM_STATUS_OK) std::abort();
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
    std::printf("ns for a request and its free: C %.1f, throwing %.1f, status %.1f, block %.1f, pmr %.1f, async %.1f\n",
                median(c), median(throwing), median(status), median(owner), median(pmr), median(async));
    CHECK(pool.statistics().live.current_bytes == 0);
    return 0;
}

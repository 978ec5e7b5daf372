// Budgets, callbacks that free, throw, go away and come back; plans that are cancelled. Nothing crosses the C library.
#include "check.hpp"

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using gpumem::status;

static void a_budget_holds_and_can_be_lifted() {
    gpumem::pool pool(on_host(256 * mib));
    pool.set_budget(32 * mib);
    gpumem::block block = pool.make_block(20 * mib);
    IS(out_of_memory, pool.try_make_block(20 * mib).status());
    THROWS(std::bad_alloc, pool.make_block(20 * mib), thrown.what()[0] != 0);
    pool.set_budget(gpumem::unset);
    CHECK(pool.make_block(20 * mib));
}

static void a_callback_may_free_and_is_kept_alive() {
    gpumem::pool pool(on_host(64 * mib));
    auto spare = std::make_shared<gpumem::block>(pool.make_block(40 * mib));
    int calls = 0;
    pool.on_out_of_memory([&calls, spare](const gpumem_shortage &shortage) {
        CHECK(shortage.requested_bytes == 50 * mib && std::string(shortage.text).size() > 0);
        ++calls;
        const bool had = static_cast<bool>(*spare);
        spare->free();
        return had;
    });
    CHECK(spare.use_count() == 2);
    CHECK(pool.make_block(50 * mib) && calls == 1);
    gpumem::block block = pool.make_block(50 * mib);
    IS(out_of_memory, pool.try_make_block(50 * mib).status());
    CHECK(calls == 2);
    // Replaced, the first one is gone.
    pool.on_out_of_memory([](const gpumem_shortage &) { return false; });
    CHECK(spare.use_count() == 1);
    pool.on_out_of_memory([spare](const gpumem_shortage &) { return false; });
    CHECK(spare.use_count() == 2);
    pool.on_out_of_memory(nullptr);
    CHECK(spare.use_count() == 1);
    IS(invalid_handle, gpumem::pool().try_on_out_of_memory([spare](const gpumem_shortage &) { return false; }));
    CHECK(spare.use_count() == 1);
    pool.on_out_of_memory([spare](const gpumem_shortage &) { return false; });
    block.free();
    pool.close();
    CHECK(spare.use_count() == 1);
}

static void a_callback_that_throws_fails_the_request() {
    gpumem::pool pool(on_host(64 * mib));
    pool.on_out_of_memory([](const gpumem_shortage &) -> bool { throw std::logic_error("from the callback"); });
    THROWS(gpumem::out_of_memory, pool.alloc(100 * mib), thrown.cause() != nullptr);
    try {
        (void)pool.alloc(100 * mib);
    } catch (const gpumem::out_of_memory &thrown) {
        THROWS(std::logic_error, std::rethrow_exception(thrown.cause()), std::string(thrown.what()) == "from the callback");
    }
    IS(out_of_memory, pool.try_alloc(100 * mib).status());
    // What was thrown at one request isn't the cause of another.
    pool.on_out_of_memory(nullptr);
    THROWS(gpumem::out_of_memory, pool.alloc(100 * mib), thrown.cause() == nullptr);
    // Not only our own exceptions.
    pool.on_out_of_memory([](const gpumem_shortage &) -> bool { throw 42; });
    THROWS(gpumem::out_of_memory, pool.alloc(100 * mib), thrown.cause() != nullptr);
    gpumem::memory_resource resource(pool);
    THROWS(gpumem::out_of_memory, resource.allocate(100 * mib), thrown.cause() != nullptr);
    CHECK(pool.make_block(mib));
    pool.check();
}

static void a_callback_is_replaced_while_others_are_in_it() {
    gpumem::pool pool(on_host(16 * mib));
    std::atomic<int> alive{0};
    struct counted {
        explicit counted(std::atomic<int> &count) : count(&count) { ++*this->count; }
        counted(const counted &other) : count(other.count) { ++*count; }
        ~counted() { --*count; }
        std::atomic<int> *count;
    };
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            while (!stop) IS(out_of_memory, pool.try_alloc(100 * mib).status());
        });
    }
    for (int i = 0; i < 200; ++i) {
        pool.on_out_of_memory([held = counted(alive)](const gpumem_shortage &) { return *held.count < 0; });
    }
    stop = true;
    for (std::thread &thread : threads) thread.join();
    CHECK(alive == 1);
    pool.on_out_of_memory(nullptr);
    CHECK(alive == 0);
}

int main() {
    a_budget_holds_and_can_be_lifted();
    a_callback_may_free_and_is_kept_alive();
    a_callback_that_throws_fails_the_request();
    a_callback_is_replaced_while_others_are_in_it();
    return 0;
}

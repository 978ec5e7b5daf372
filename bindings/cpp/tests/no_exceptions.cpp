// Built with -fno-exceptions -fno-rtti, and linked to a part that has both: the status forms do all that they promise.
#include "check.hpp"

#include <csignal>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#if defined(__cpp_exceptions) || defined(__cpp_rtti)
#error "this is to be built without exceptions and RTTI"
#endif

/// The part with exceptions; the same functions of the header are in it, in another form.
int count_what_is_thrown(gpumem_allocator *pool);

static void where_it_would_throw_it_ends_the_process() {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        gpumem::pool().free(nullptr);
        _exit(0);
    }
    int how = 0;
    CHECK(waitpid(child, &how, 0) == child);
    CHECK(WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT);
}

int main() {
    where_it_would_throw_it_ends_the_process();
    gpumem::result<gpumem::pool> made = gpumem::pool::try_make(on_host(64 * mib));
    IS(ok, made.status());
    gpumem::pool pool = std::move(*made);
    gpumem::result<void *> block = pool.try_alloc(1000);
    CHECK(block);
    std::memset(*block, 1, 1000);
    IS(ok, pool.try_free(*block));
    IS(double_free, pool.try_free(*block));
    CHECK(std::strlen(gpumem::last_error()) > 0);
    int calls = 0;
    IS(ok, pool.try_on_out_of_memory([&calls](const gpumem_shortage &) { return ++calls < 3; }));
    IS(out_of_memory, pool.try_alloc(100 * mib).status());
    CHECK(calls == 3);
    IS(ok, pool.try_on_out_of_memory(nullptr));
    {
        gpumem::tag_scope scope(gpumem::tag{gpumem::tier::cyclic, {}, 0, 3}, std::nothrow);
        IS(ok, scope.status());
        CHECK(gpumem::try_current_tag()->owner == 3);
        gpumem::result<gpumem::block> owned = pool.try_make_block(100);
        CHECK(owned && pool.try_statistics()->tiers[1].current_bytes == 100);
    }
    CHECK(pool.try_statistics()->live.current_bytes == 0 && pool.try_statistics_json()->size() > 100);
    gpumem::memory_resource resource(pool, std::nothrow);
    IS(ok, resource.status());
    {
        std::vector<int, gpumem::allocator<int>> numbers{gpumem::allocator<int>(resource)};
        numbers.assign(1000, 7);
        CHECK(numbers[999] == 7);
    }
    gpumem::result<gpumem::graph> graph = gpumem::graph::try_make("g");
    gpumem::tensor spec;
    spec.bytes = 100;
    gpumem::op op;
    op.outputs = {*graph->try_add(spec)};
    CHECK(graph->try_add(op));
    gpumem::result<gpumem::plan> plan = gpumem::plan::try_make(*graph);
    CHECK(plan && plan->try_query()->peak_bytes >= 100);
    CHECK(count_what_is_thrown(pool.get()) == 2);
    IS(ok, pool.try_check());
    IS(ok, pool.try_close());
    return 0;
}

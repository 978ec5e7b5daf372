// The standard library's containers on a pool, and the resource in the shape of cuda::mr.
#include "check.hpp"

#include <cstring>
#include <list>
#include <map>
#include <memory_resource>
#include <numeric>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

using gpumem::status;

static std::uint64_t live(const gpumem::pool &pool) { return pool.statistics().live.current_bytes; }

static void pmr_containers_live_on_a_pool() {
    gpumem::pool pool(on_host(256 * mib));
    gpumem::memory_resource resource(pool);
    {
        std::pmr::vector<int> numbers(&resource);
        for (int i = 0; i < 100000; ++i) numbers.push_back(i);
        CHECK(std::accumulate(numbers.begin(), numbers.end(), 0LL) == 99999LL * 100000 / 2);
        CHECK(live(pool) >= numbers.size() * sizeof(int));
        std::pmr::unordered_map<std::pmr::string, std::pmr::vector<double>> map(&resource);
        for (int i = 0; i < 1000; ++i) map[std::pmr::string(("a key that is too long to be kept in place " + std::to_string(i)).c_str(), &resource)].assign(10, i);
        CHECK(map.size() == 1000 && map.begin()->second.get_allocator().resource() == &resource);
        map.erase(map.begin());
        CHECK(map.size() == 999);
        std::pmr::unsynchronized_pool_resource small(&resource);
        std::pmr::map<int, int> tree(&small);
        for (int i = 0; i < 1000; ++i) tree[i * 7919 % 1000] = i;
        CHECK(tree.size() == 1000);
    }
    CHECK(live(pool) == 0);
    pool.check();
    gpumem::memory_resource other(pool);
    CHECK(resource == resource && !(resource == other) && !(resource == *std::pmr::new_delete_resource()));
    void *aligned = resource.allocate(100, 65536);
    CHECK(reinterpret_cast<std::uintptr_t>(aligned) % 65536 == 0);
    resource.deallocate(aligned, 100, 65536);
    THROWS(std::bad_alloc, resource.allocate(std::size_t{1} << 30), thrown.what()[0] != 0);
    IS(out_of_memory, resource.try_allocate(std::size_t{1} << 30).status());
    int own = 0;
    IS(foreign_pointer, resource.try_deallocate(&own));
    CHECK(live(pool) == 0);
}

static void memory_that_the_host_cannot_use_is_refused() {
    gpumem::config config;
    config.device = "sim";
    gpumem::pool pool(config);
    IS(unsupported, gpumem::memory_resource(pool, std::nothrow).status());
    THROWS(gpumem::error, gpumem::memory_resource(pool), thrown.status() == status::unsupported);
    gpumem::memory_resource resource(pool, std::nothrow);
    IS(invalid_handle, resource.try_allocate(1).status());
    THROWS(gpumem::error, resource.allocate(1), thrown.status() == status::invalid_handle);
}

using traits = std::allocator_traits<gpumem::allocator<int>>;
static_assert(std::is_same_v<traits::value_type, int> && std::is_same_v<traits::pointer, int *> &&
              std::is_same_v<traits::rebind_alloc<char>, gpumem::allocator<char>>);
static_assert(!traits::is_always_equal::value && traits::propagate_on_container_move_assignment::value &&
              traits::propagate_on_container_swap::value && !traits::propagate_on_container_copy_assignment::value);
static_assert(std::is_nothrow_copy_constructible_v<gpumem::allocator<int>> &&
              std::is_nothrow_constructible_v<gpumem::allocator<int>, const gpumem::allocator<char> &>);

static void an_allocator_meets_the_standards_requirements() {
    gpumem::pool pool(on_host(256 * mib));
    gpumem::memory_resource here(pool), there(pool);
    {
        using vector = std::vector<int, gpumem::allocator<int>>;
        const gpumem::allocator<int> a(here), b(there);
        const gpumem::allocator<char> of_char(a);
        CHECK(a == a && a != b && a == of_char && of_char != b && gpumem::allocator<int>(of_char) == a);
        vector numbers(a);
        numbers.resize(10000, 5);
        const int *data = numbers.data();
        vector copy = numbers;
        CHECK(copy == numbers && copy.get_allocator() == a && copy.data() != data);
        vector moved(b);
        moved = std::move(numbers);  // takes allocator and memory along
        CHECK(moved.data() == data && moved.get_allocator() == a);
        vector assigned(b);
        assigned = moved;  // keeps its own
        CHECK(assigned == moved && assigned.get_allocator() == b);
        std::swap(assigned, moved);
        CHECK(assigned.data() == data && assigned.get_allocator() == a && moved.get_allocator() == b);
        vector elsewhere(std::move(assigned), b);  // must copy
        CHECK(elsewhere.size() == 10000 && elsewhere.data() != data && elsewhere.get_allocator() == b);
        std::list<std::string, gpumem::allocator<std::string>> list(a);
        for (int i = 0; i < 100; ++i) list.push_back(std::string(100, 'x'));
        list.sort();
        std::map<int, int, std::less<int>, gpumem::allocator<std::pair<const int, int>>> map(a);
        for (int i = 0; i < 100; ++i) map[i] = i;
        std::basic_string<char, std::char_traits<char>, gpumem::allocator<char>> text(1000, 'y', of_char);
        CHECK(text.size() == 1000 && map.at(50) == 50 && list.size() == 100);
        struct alignas(4096) page {
            char bytes[4096];
        };
        std::vector<page, gpumem::allocator<page>> pages(3, a);
        CHECK(reinterpret_cast<std::uintptr_t>(pages.data()) % 4096 == 0);
    }
    CHECK(live(pool) == 0);
    gpumem::allocator<double> doubles(here);
    const std::size_t too_many = std::size_t(-1) / 4;
    THROWS(std::bad_array_new_length, doubles.allocate(too_many), true);
    IS(invalid_argument, doubles.try_allocate(too_many).status());
    THROWS(gpumem::out_of_memory, doubles.allocate(1 << 27), true);
    IS(out_of_memory, doubles.try_allocate(1 << 27).status());
    gpumem::result<double *> some = doubles.try_allocate(10);
    some.value()[9] = 1;
    IS(ok, doubles.try_deallocate(*some));
    CHECK(live(pool) == 0);
}

// What cuda::stream_ref looks like.
struct foreign_stream {
    struct native *handle;
    native *get() const noexcept { return handle; }
};
// A tag of another library's, for which this program says what it means.
struct their_device_accessible {};
template <>
struct gpumem::is_device_accessible_tag<their_device_accessible> : std::true_type {};

template <class Resource, class Property, class = void>
constexpr bool has_property = false;
template <class Resource, class Property>
constexpr bool has_property<Resource, Property,
                            std::void_t<decltype(get_property(std::declval<const Resource &>(), Property()))>> = true;
static_assert(has_property<gpumem::stream_resource, gpumem::device_accessible> &&
              has_property<gpumem::stream_resource, their_device_accessible> &&
              !has_property<gpumem::stream_resource, gpumem::host_accessible>);
static_assert(std::is_copy_constructible_v<gpumem::stream_resource> &&
              std::is_nothrow_move_constructible_v<gpumem::stream_resource>);
static_assert(std::is_convertible_v<foreign_stream, gpumem::stream_ref> &&
              std::is_convertible_v<native *, gpumem::stream_ref> &&
              !std::is_convertible_v<gpumem::device, gpumem::stream_ref> &&
              !std::is_convertible_v<void *, gpumem::stream_ref> &&
              !std::is_convertible_v<float *, gpumem::stream_ref> &&
              !std::is_convertible_v<int, gpumem::stream_ref>);

static void a_stream_resource_has_the_shape_of_cuda_mr() {
    gpumem::device device(on_host(256 * mib));
    gpumem::pool pool(device);
    {
        gpumem::stream stream(device, pool);
        gpumem::stream_resource resource(pool), copy = resource, none;
        CHECK(resource == copy && resource != none);
        void *block = resource.allocate_async(1000, 256, stream);
        CHECK(pool.block_info(block).stream == stream.number() && pool.block_info(block).requested_bytes == 1000);
        copy.deallocate_async(block, 1000, 256, stream);
        block = resource.allocate_async(1000, stream);
        copy.deallocate_async(block, 1000, stream);
        block = resource.allocate(stream, 1000);
        copy.deallocate(stream, block, 1000);
        block = resource.allocate(1000);
        CHECK(pool.block_info(block).stream != stream.number() && pool.block_info(block).stream != 0);
        std::memset(block, 1, 1000);
        resource.deallocate(block, 1000);
        block = resource.allocate_sync(1000, 4096);
        CHECK(reinterpret_cast<std::uintptr_t>(block) % 4096 == 0);
        resource.deallocate_sync(block, 1000, 4096);
        const foreign_stream foreign{reinterpret_cast<native *>(static_cast<std::uintptr_t>(stream.number()))};
        block = resource.allocate_async(1000, foreign);
        CHECK(pool.block_info(block).stream == stream.number());
        resource.deallocate_async(block, 1000, foreign);
        THROWS(std::bad_alloc, resource.allocate_async(std::size_t{1} << 30, stream), true);
        THROWS(gpumem::error, none.allocate(10), thrown.status() == status::invalid_handle);
        IS(ok, resource.try_deallocate(*resource.try_allocate(10)));
        IS(ok, resource.try_deallocate_async(*resource.try_allocate_async(10, 1, stream), stream));
        IS(double_free, resource.try_deallocate_async(block, stream));
    }
    CHECK(live(pool) == 0);
    pool.check();
}

// Memory that a stream still writes to isn't handed to the host.
static void memory_without_a_stream_is_ready() {
    gpumem::device device(on_host(64 * mib));
    gpumem::pool pool(device);
    gpumem::stream made(device, pool);
    gpumem::memory_resource resource(pool);
    gpumem::stream_resource ordered(pool);
    const gpumem::block from = pool.make_block(8 * mib);
    std::memset(from.data(), 0xaa, 8 * mib);
    const auto work_on = [&](gpumem::stream_ref stream) {
        void *to = pool.alloc(8 * mib, stream);
        for (int copies = 0; copies < 8; ++copies) device.copy(to, from.data(), 8 * mib, stream);
        pool.free(to, stream);
    };
    const auto is_mine = [&](void *block) {
        std::memset(block, 0x55, 8 * mib);
        device.synchronize();
        const auto *bytes = static_cast<const unsigned char *>(block);
        for (std::size_t at = 0; at < 8 * mib; at += 512) CHECK(bytes[at] == 0x55);
    };
    for (int i = 0; i < 10; ++i) {
        for (const gpumem::stream_ref stream : {gpumem::default_stream, gpumem::stream_ref(made)}) {
            work_on(stream);
            void *block = resource.allocate(8 * mib);
            is_mine(block);
            resource.deallocate(block, 8 * mib);
            work_on(stream);
            block = ordered.allocate(8 * mib);
            is_mine(block);
            ordered.deallocate(block, 8 * mib);
        }
    }
}

int main() {
    pmr_containers_live_on_a_pool();
    memory_that_the_host_cannot_use_is_refused();
    an_allocator_meets_the_standards_requirements();
    a_stream_resource_has_the_shape_of_cuda_mr();
    memory_without_a_stream_is_ready();
    return 0;
}

// Replays a trace on the pool, binning and arena resources of RMM (a release that is headers only) over a host upstream.
#include "../common/replay.hpp"
#include <rmm/mr/device/arena_memory_resource.hpp>
#include <rmm/mr/device/binning_memory_resource.hpp>
#include <rmm/mr/device/device_memory_resource.hpp>
#include <rmm/mr/device/pool_memory_resource.hpp>

static Backing backing;
extern "C" {
void fake_gpu_complete(int64_t);
void* fake_gpu_stream(int64_t);
void fake_gpu_capacity(uint64_t);
}

class Upstream final : public rmm::mr::device_memory_resource {
  void* do_allocate(std::size_t bytes, rmm::cuda_stream_view) override {
    void* block = backing.get(bytes);
    if (!block) throw rmm::out_of_memory("upstream");
    return block;
  }
  void do_deallocate(void* block, std::size_t, rmm::cuda_stream_view) override { backing.put(block); }
};

struct Peer {
  rmm::mr::device_memory_resource* resource;
  std::vector<rmm::cuda_stream_view> streams;
  HeldFrees frees;

  void* alloc(uint64_t bytes, int stream) {
    try { return resource->allocate(bytes, streams[stream]); } catch (const std::exception&) { return nullptr; }
  }
  void go(void* block, uint64_t bytes, int stream) { resource->deallocate(block, bytes, streams[stream]); }
  void free(void* block, uint64_t bytes, int stream) {
    frees.free(block, bytes, stream, [&](void* held, uint64_t size, int owner) { go(held, size, owner); });
  }
  void use(void* block, int stream) { frees.use(block, stream); }
  void sync(int stream) {
    fake_gpu_complete(stream);
    frees.sync(stream, [&](void* held, uint64_t size, int owner) { go(held, size, owner); });
  }
  void step() {}
  uint64_t peak_reserved() { return backing.peak; }
  uint64_t backing_calls() { return backing.calls; }
};

int main(int count, char** words) {
  const char* more = "[--arena] [--init BYTES] [--binning]";
  Options options;
  uint64_t initial = 0;
  bool arena = false, binning = false;
  for (int at = 1; at < count; ++at) {
    std::string word = words[at];
    if (options.take(at, count, words)) continue;
    if (word == "--arena") arena = true;
    else if (word == "--binning") binning = true;
    else if (word == "--init" && at + 1 < count) initial = Options::bytes(words[++at]) / 256 * 256;
    else usage(more);
  }
  if (options.trace.empty() && !options.host) usage(more);
  fake_gpu_capacity(options.capacity);
  backing.init(size_t(1) << 44, options.capacity);
  std::string name = std::string(arena ? "rmm_arena" : "rmm_pool") + (binning ? "+binning" : "");
  run(options, name, [&] {
    auto* upstream = new Upstream;
    uint64_t most = options.capacity / 256 * 256;
    rmm::mr::device_memory_resource* resource;
    if (arena) resource = new rmm::mr::arena_memory_resource<Upstream>(upstream, std::optional<std::size_t>(initial ? initial : most));
    else resource = new rmm::mr::pool_memory_resource<Upstream>(upstream, initial, most);
    // Bins of 4 KiB to 4 MiB, as its users set it up.
    if (binning) resource = new rmm::mr::binning_memory_resource<rmm::mr::device_memory_resource>(resource, 12, 22);
    Peer peer{resource, {}, {}};
    for (int stream = 0; stream < 64; ++stream) peer.streams.emplace_back((cudaStream_t)fake_gpu_stream(stream));
    return peer;
  });
}

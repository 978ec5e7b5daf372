// Replays a trace on the best-fit allocator with coalescing that the tensorflow-cpu wheel exports.
#include "../common/replay.hpp"
#include "xla/tsl/framework/allocator.h"
#include "xla/tsl/framework/bfc_allocator.h"

static Backing backing;

class HostSub : public tsl::SubAllocator {
 public:
  HostSub() : tsl::SubAllocator({}, {}) {}
  void* Alloc(size_t, size_t bytes, size_t* got) override {
    void* block = backing.get(bytes);
    *got = block ? bytes : 0;
    return block;
  }
  void Free(void* block, size_t) override { backing.put(block); }
  bool SupportsCoalescing() const override { return false; }
  tsl::AllocatorMemoryType GetMemoryType() const override { return tsl::AllocatorMemoryType::kDevice; }
};

struct Peer {
  tsl::BFCAllocator* allocator;
  HeldFrees frees;
  tsl::AllocationAttributes attributes{false, false, nullptr};

  void* alloc(uint64_t bytes, int) { return allocator->AllocateRaw(256, bytes, attributes); }
  void go(void* block) { allocator->DeallocateRaw(block); }
  void free(void* block, uint64_t bytes, int stream) {
    frees.free(block, bytes, stream, [&](void* held, uint64_t, int) { go(held); });
  }
  void use(void* block, int stream) { frees.use(block, stream); }
  void sync(int stream) { frees.sync(stream, [&](void* held, uint64_t, int) { go(held); }); }
  void step() {}
  uint64_t peak_reserved() { return backing.peak; }
  uint64_t backing_calls() { return backing.calls; }
};

int main(int count, char** words) {
  Options options;
  tsl::BFCAllocator::Options settings;
  settings.allow_retry_on_failure = false;
  std::string name = "tf_bfc";
  for (int at = 1; at < count; ++at) {
    std::string word = words[at];
    if (options.take(at, count, words)) continue;
    if (word == "--prealloc") { settings.allow_growth = false; name += "+prealloc"; }
    else if (word == "--gc") { settings.garbage_collection = true; name += "+gc"; }
    else if (word == "--frag" && at + 1 < count) { settings.fragmentation_fraction = atof(words[++at]); name += "+frag"; }
    else usage("[--prealloc] [--gc] [--frag SHARE]");
  }
  if (options.trace.empty() && !options.host) usage("[--prealloc] [--gc] [--frag SHARE]");
  backing.init(size_t(1) << 44, options.capacity);
  run(options, name, [&] {
    return Peer{new tsl::BFCAllocator(std::make_unique<HostSub>(), options.capacity, "peer", settings), {}};
  });
}

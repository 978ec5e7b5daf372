// Replays a trace on gpumem, through its C functions alone. Memory comes from the host device, which backs a page of it
// only once it is touched, and nobody touches it here.
#include "../common/replay.hpp"
#include <gpumem.h>

static void check(gpumem_status status) {
  if (status == GPUMEM_STATUS_OK) return;
  fprintf(stderr, "gpumem: %s\n", gpumem_last_error());
  abort();
}

struct Peer {
  gpumem_allocator* allocator;

  // Numbers that no stream of the device has, so that nobody can ask it whether their work is over: it is only at a sync.
  static uint64_t number(int stream) { return 1000 + (uint64_t)stream; }

  void* alloc(uint64_t bytes, int stream) {
    void* block = nullptr;
    gpumem_status status = gpumem_allocator_alloc(allocator, bytes, 0, number(stream), &block);
    if (status == GPUMEM_STATUS_OUT_OF_MEMORY) return nullptr;
    check(status);
    return block;
  }
  void free(void* block, uint64_t, int) { check(gpumem_allocator_free(allocator, block, GPUMEM_STREAM_HOME)); }
  void use(void* block, int stream) { check(gpumem_allocator_record_use(allocator, block, number(stream))); }
  void wait(int of, int by) { check(gpumem_allocator_stream_waited(allocator, number(of), number(by))); }
  void sync(int stream) { check(gpumem_allocator_synchronized(allocator, stream < 0 ? GPUMEM_STREAM_ALL : number(stream))); }
  void step() { check(gpumem_allocator_step(allocator)); }
  gpumem_statistics statistics() {
    gpumem_statistics all = GPUMEM_STATISTICS_INIT;
    check(gpumem_allocator_statistics(allocator, &all));
    return all;
  }
  uint64_t peak_reserved() { return statistics().reserved.peak_bytes; }
  uint64_t backing_calls() { return statistics().driver_calls; }
};

int main(int count, char** words) {
  const char* more = "[--pool] [--backing auto|segments|range] [--set 'KEY=VALUE;...']";
  Options options;
  std::string settings, name = "gpumem";
  bool pool = false;
  for (int at = 1; at < count; ++at) {
    std::string word = words[at];
    if (options.take(at, count, words)) continue;
    if (word == "--pool") { pool = true; name += "+pool"; }
    else if (word == "--backing" && at + 1 < count) { settings += std::string("backing=") + words[++at] + ";"; name += std::string("+") + words[at]; }
    else if (word == "--set" && at + 1 < count) settings += std::string(words[++at]) + ";";
    else usage(more);
  }
  if (options.trace.empty() && !options.host) usage(more);
  run(options, name, [&] {
    gpumem_config config = GPUMEM_CONFIG_INIT;
    config.device = "host";
    config.settings = settings.c_str();
    // A device has whole pages.
    config.capacity_bytes = options.capacity / Backing::PAGE * Backing::PAGE;
    if (pool) config.initial_bytes = config.capacity_bytes;
    Peer peer{nullptr};
    gpumem_status status = gpumem_allocator_create(nullptr, &config, &peer.allocator);
    if (status != GPUMEM_STATUS_OK) { fprintf(stderr, "gpumem: %s\n", gpumem_last_error()); exit(1); }
    return peer;
  });
}

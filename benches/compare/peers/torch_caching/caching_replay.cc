// Replays a trace on the caching allocator of a CUDA build of PyTorch, over the stand-in runtime. Its own settings come
// from the environment (PYTORCH_CUDA_ALLOC_CONF).
#include "../common/replay.hpp"
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/cuda/PeerToPeerAccess.h>

extern "C" {
void fake_gpu_complete(int64_t);
void* fake_gpu_stream(int64_t);
uint64_t fake_gpu_stat(int);
void fake_gpu_capacity(uint64_t);
}
namespace c10::cuda::_internal { C10_CUDA_API void setHasPrimaryContext(bool (*)(c10::DeviceIndex)); }
namespace caching = c10::cuda::CUDACachingAllocator;

struct Peer {
  caching::CUDAAllocator* allocator;
  std::vector<cudaStream_t> streams;

  void* alloc(uint64_t bytes, int stream) {
    try { return allocator->raw_alloc_with_stream(bytes, streams[stream]); } catch (const std::exception&) { return nullptr; }
  }
  void free(void* block, uint64_t, int) { allocator->raw_delete(block); }
  void use(void* block, int stream) {
    c10::DataPtr data(block, block, allocator->raw_deleter(), c10::Device(c10::DeviceType::CUDA, 0));
    allocator->recordStream(data, c10::cuda::getStreamFromExternal(streams[stream], 0));
    data.release_context();
  }
  void sync(int stream) { fake_gpu_complete(stream); }
  void step() {}
  uint64_t peak_reserved() { return fake_gpu_stat(0); }
  // Blocks and handles taken and given back.
  uint64_t backing_calls() { return fake_gpu_stat(2) + fake_gpu_stat(3) + fake_gpu_stat(8) + fake_gpu_stat(5); }
};

int main(int count, char** words) {
  Options options;
  bool verbose = false;
  for (int at = 1; at < count; ++at) {
    if (options.take(at, count, words)) continue;
    if (!strcmp(words[at], "-v")) verbose = true; else usage("[-v]");
  }
  if (options.trace.empty() && !options.host) usage("[-v]");
  const char* settings = getenv("PYTORCH_CUDA_ALLOC_CONF");
  std::string name = std::string("torch_cca") + (settings ? std::string("[") + settings + "]" : "");
  std::replace(name.begin(), name.end(), ',', ';');
  fake_gpu_capacity(options.capacity);
  auto make = [&] {
    c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
    c10::cuda::detail::init_p2p_access_cache(1);
    caching::init(1);
    Peer peer{caching::get(), {}};
    for (int stream = 0; stream < 64; ++stream) peer.streams.push_back((cudaStream_t)fake_gpu_stream(stream));
    return peer;
  };
  if (!verbose) run(options, name, make);
  int status = replay_all(options, name, make);
  fprintf(stderr, "cudaMalloc %lu cudaFree %lu map %lu unmap %lu create %lu events %lu queries %lu host_waits %lu\n",
          fake_gpu_stat(2), fake_gpu_stat(3), fake_gpu_stat(4), fake_gpu_stat(5), fake_gpu_stat(8), fake_gpu_stat(6), fake_gpu_stat(7), fake_gpu_stat(9));
  fflush(stdout);
  _exit(status);
}

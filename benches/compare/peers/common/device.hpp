// What stands for a device below peers that ask their caller for memory, and for waiting below those that can't.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <unordered_map>
#include <vector>
#include <sys/mman.h>

// Address space that stands for device memory: reserved and never touched, so that no page of it is ever backed.
struct Backing {
  static constexpr size_t PAGE = size_t(2) << 20;
  char* base = nullptr;
  size_t span = 0, bump = 0;
  uint64_t capacity = ~0ull, held = 0, peak = 0, calls = 0;
  std::unordered_map<char*, size_t> out;
  std::unordered_map<size_t, std::vector<char*>> again;

  void init(size_t bytes, uint64_t most) {
    span = bytes;
    capacity = most;
    base = (char*)mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) { perror("mmap"); exit(2); }
  }
  void* get(size_t bytes) {
    bytes = (bytes + 511) / 512 * 512;
    if (held + bytes > capacity) return nullptr;
    char* block;
    auto idle = again.find(bytes);
    if (idle != again.end() && !idle->second.empty()) {
      block = idle->second.back();
      idle->second.pop_back();
    } else {
      size_t at = (bump + PAGE - 1) / PAGE * PAGE;
      if (at + bytes > span) return nullptr;
      block = base + at;
      bump = at + bytes;
    }
    out[block] = bytes;
    held += bytes;
    peak = std::max(peak, held);
    ++calls;
    return block;
  }
  void put(void* block) {
    auto found = out.find((char*)block);
    if (found == out.end()) { fprintf(stderr, "backing: unknown pointer\n"); abort(); }
    held -= found->second;
    again[found->second].push_back(found->first);
    out.erase(found);
    ++calls;
  }
};

// For peers that can't be told of another stream's use: the caller keeps the block until that stream was waited for.
struct HeldFrees {
  struct Item { void* block; uint64_t bytes; int owner; std::vector<int> on; };
  std::unordered_map<void*, std::vector<int>> used;
  std::vector<Item> held;

  void use(void* block, int stream) { used[block].push_back(stream); }
  template <class F> void free(void* block, uint64_t bytes, int owner, F&& go) {
    if (used.empty()) { go(block, bytes, owner); return; }
    auto found = used.find(block);
    if (found == used.end()) { go(block, bytes, owner); return; }
    held.push_back({block, bytes, owner, std::move(found->second)});
    used.erase(found);
  }
  template <class F> void sync(int stream, F&& go) {
    if (held.empty()) return;
    std::vector<Item> kept;
    for (auto& item : held) {
      if (stream < 0) item.on.clear();
      else item.on.erase(std::remove(item.on.begin(), item.on.end(), stream), item.on.end());
      if (item.on.empty()) go(item.block, item.bytes, item.owner); else kept.push_back(std::move(item));
    }
    held.swap(kept);
  }
};

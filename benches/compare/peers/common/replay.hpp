// Replays a trace on one allocator and says what it took. Each program gives a class with
//
//   void* alloc(uint64_t bytes, int stream);             null: out of memory
//   void free(void* block, uint64_t bytes, int stream);  stream: the one it was asked for on
//   void use(void* block, int stream);
//   void sync(int stream);                               -1: all
//   void step();
//   void wait(int of, int by);                           only where the allocator can be told
//   uint64_t peak_reserved();
//   uint64_t backing_calls();
//
// and hands `run` a function that makes one. README.md says what each figure means.
#pragma once
#include <atomic>
#include <cinttypes>
#include <cstring>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "device.hpp"
#include "trace.hpp"

struct Options {
  std::string trace;
  uint64_t capacity = uint64_t(1) << 42;
  int reps = 7;
  bool serve = false, host = false;

  static uint64_t bytes(const char* text) {
    char* end;
    double value = strtod(text, &end);
    switch (*end) {
      case 'k': case 'K': value *= 1024; break;
      case 'm': case 'M': value *= 1048576; break;
      case 'g': case 'G': value *= 1073741824.0; break;
    }
    return (uint64_t)value;
  }
  // Whether word `at` is an option that all programs have; then `at` is its last word.
  bool take(int& at, int count, char** words) {
    std::string word = words[at];
    bool more = at + 1 < count;
    if (word == "--cap" && more) capacity = bytes(words[++at]);
    else if (word == "--reps" && more) reps = atoi(words[++at]);
    else if (word == "--serve") serve = true;
    else if (word == "--host") host = true;
    else if (!word.empty() && word[0] != '-' && trace.empty()) trace = word;
    else return false;
    return true;
  }
};

// CPU time of this thread: unlike wall time it isn't stretched by others on the machine.
inline double cpu_ns() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1e9 + now.tv_nsec;
}

inline double wall_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e9 + now.tv_nsec;
}

inline double ns_a_cycle() {
  static double value = [] {
    double from = wall_ns(), to;
    uint64_t start = __rdtsc();
    do to = wall_ns(); while (to - from < 50e6);
    return (to - from) / double(__rdtsc() - start);
  }();
  return value;
}

struct Sample {
  std::vector<uint32_t> cycles;
  void add(uint64_t count) { cycles.push_back((uint32_t)std::min<uint64_t>(count, 0xffffffffu)); }
  double quantile_ns(double share) {
    if (cycles.empty()) return 0;
    size_t at = std::min(cycles.size() - 1, size_t(share * cycles.size()));
    std::nth_element(cycles.begin(), cycles.begin() + at, cycles.end());
    return cycles[at] * ns_a_cycle();
  }
};

template <class A> auto tell_wait(A& peer, int of, int by, int) -> decltype(peer.wait(of, by)) { return peer.wait(of, by); }
template <class A> void tell_wait(A&, int, int, long) {}

template <class A>
struct Replay {
  A& peer;
  const Trace& trace;
  std::vector<void*> blocks = std::vector<void*>(trace.slots, nullptr);
  std::vector<int32_t> owners = std::vector<int32_t>(trace.slots, 0);

  // The op that found no memory; -1: all went well.
  template <class Before, class After> int64_t pass(Before&& before, After&& after) {
    for (size_t at = 0; at < trace.ops.size(); ++at) {
      const Op& op = trace.ops[at];
      switch (op.row) {
        case Row::Alloc: {
          before();
          void* block = peer.alloc(op.bytes, op.stream);
          after(true);
          if (!block && op.bytes) return (int64_t)at;
          blocks[op.slot] = block;
          owners[op.slot] = op.stream;
          break;
        }
        case Row::Free:
          before();
          peer.free(blocks[op.slot], op.bytes, owners[op.slot]);
          after(false);
          break;
        case Row::Use: peer.use(blocks[op.slot], op.stream); break;
        case Row::Sync: peer.sync(op.stream); break;
        case Row::Step: peer.step(); break;
        case Row::Wait: tell_wait(peer, (int)op.slot, op.stream, 0); break;
      }
    }
    return -1;
  }
  // ns of this thread a call, or less than 0.
  double timed() {
    double from = cpu_ns();
    int64_t stopped = pass([] {}, [](bool) {});
    return stopped < 0 ? (cpu_ns() - from) / trace.calls() : -1;
  }

  struct Latencies { Sample allocs, frees, nothing; uint64_t backing_calls; };
  // The cycle counter around each call, and as often around nothing.
  Latencies latencies() {
    Latencies found;
    found.allocs.cycles.reserve(trace.allocs);
    found.frees.cycles.reserve(trace.frees);
    found.nothing.cycles.reserve(trace.allocs);
    uint64_t start = 0;
    auto before = [&] { start = __rdtsc(); _mm_lfence(); };
    auto stop = [&] { unsigned processor; return __rdtscp(&processor) - start; };
    for (const Op& op : trace.ops) {
      if (op.row != Row::Alloc) continue;
      before();
      found.nothing.add(stop());
    }
    uint64_t calls = peer.backing_calls();
    pass(before, [&](bool is_alloc) { uint64_t took = stop(); (is_alloc ? found.allocs : found.frees).add(took); });
    found.backing_calls = peer.backing_calls() - calls;
    return found;
  }
};

struct Together { double cpu_ns_call = -1, wall_ns_call = -1; };

// Several threads on one allocator, each with its own stream and its own copy of the trace, without uses and waits.
template <class A>
Together replay_threads(A& peer, const Trace& trace, int threads) {
  std::vector<std::thread> workers;
  std::atomic<int> ready{0};
  std::atomic<bool> failed{false};
  std::vector<double> cpu(threads), from(threads), to(threads);
  for (int thread = 0; thread < threads; ++thread) {
    workers.emplace_back([&, thread] {
      std::vector<void*> blocks(trace.slots, nullptr);
      ++ready;
      while (ready.load() < threads) {}
      from[thread] = wall_ns();
      double start = cpu_ns();
      for (const Op& op : trace.ops) {
        if (op.row == Row::Alloc) {
          blocks[op.slot] = peer.alloc(op.bytes, thread);
          if (!blocks[op.slot] && op.bytes) { failed = true; return; }
        } else if (op.row == Row::Free) {
          peer.free(blocks[op.slot], op.bytes, thread);
        }
      }
      cpu[thread] = cpu_ns() - start;
      to[thread] = wall_ns();
    });
  }
  for (auto& worker : workers) worker.join();
  if (failed) return {};
  double busy = 0;
  for (double time : cpu) busy += time;
  double wall = *std::max_element(to.begin(), to.end()) - *std::min_element(from.begin(), from.end());
  return {busy / (trace.calls() * threads), wall / (trace.calls() * threads)};
}

inline uint64_t status_bytes(const char* key) {
  FILE* file = fopen("/proc/self/status", "r");
  char line[256];
  unsigned long long value = 0;
  while (file && fgets(line, sizeof line, file)) {
    if (!strncmp(line, key, strlen(key)) && line[strlen(key)] == ':') sscanf(line + strlen(key) + 1, "%llu", &value);
  }
  if (file) fclose(file);
  return value * 1024;
}

// Memory of this process that no file backs: code that happens to be in memory isn't the allocator's.
inline uint64_t own_bytes() { return status_bytes("RssAnon") + status_bytes("RssShmem"); }

// What the host gives an allocator with 100 000 live blocks that fill most of the device: its memory and page tables.
template <class Make>
int host_memory(const Options& options, const std::string& name, Make&& make) {
  const int count = 100000;
  const uint64_t mean = options.capacity / 100 * 97 / count;
  std::vector<void*> blocks(count);
  std::vector<uint64_t> sizes(count);
  uint64_t state = 1, asked = 0;
  for (auto& size : sizes) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    size = (1 + (state >> 33) % (2 * mean / 512)) * 512;
    asked += size;
  }
  memset((void*)blocks.data(), 1, count * sizeof(void*));
  uint64_t resident = own_bytes(), tables = status_bytes("VmPTE");
  auto&& peer = make();
  uint64_t opened = own_bytes();
  int made = 0;
  for (; made < count; ++made) {
    blocks[made] = peer.alloc(sizes[made], 0);
    if (!blocks[made]) break;
  }
  printf("%s,host,%s,blocks=%d,asked=%" PRIu64 ",peak_reserved=%" PRIu64 ",host_bytes=%" PRIu64 ",at_start=%" PRIu64 ",page_tables=%" PRIu64 "\n",
         name.c_str(), made == count ? "ok" : "OOM", made, asked, peer.peak_reserved(),
         own_bytes() - std::min(resident, own_bytes()), opened - std::min(resident, opened),
         status_bytes("VmPTE") - std::min(tables, status_bytes("VmPTE")));
  return made < count;
}

template <class A> void print_latencies(Replay<A>& replay) {
  auto found = replay.latencies();
  printf("alloc_p50=%.1f,alloc_p99=%.1f,alloc_p999=%.1f,free_p50=%.1f,free_p99=%.1f,free_p999=%.1f,empty_p50=%.1f,empty_p99=%.1f,empty_p999=%.1f,pass_backing_calls=%" PRIu64,
         found.allocs.quantile_ns(.5), found.allocs.quantile_ns(.99), found.allocs.quantile_ns(.999), found.frees.quantile_ns(.5),
         found.frees.quantile_ns(.99), found.frees.quantile_ns(.999), found.nothing.quantile_ns(.5), found.nothing.quantile_ns(.99),
         found.nothing.quantile_ns(.999), found.backing_calls);
}

// Answers one line for each on standard input: `warm`, `latency` or `threads N`. So several programs can take turns.
template <class A>
int serve(A& peer, const Trace& trace, Replay<A>& replay) {
  char command[64];
  while (fflush(stdout), fgets(command, sizeof command, stdin)) {
    if (!strncmp(command, "warm", 4)) {
      replay.timed();  // other programs had the caches meanwhile
      double ns = replay.timed();
      if (ns < 0) return printf("OOM\n"), 1;
      printf("ns=%.2f\n", ns);
    } else if (!strncmp(command, "latency", 7)) {
      replay.timed();
      print_latencies(replay);
      printf("\n");
    } else if (!strncmp(command, "threads ", 8)) {
      Together found = replay_threads(peer, trace, std::max(1, atoi(command + 8)));
      printf("cpu_ns=%.2f,wall_ns=%.2f\n", found.cpu_ns_call, found.wall_ns_call);
    } else {
      return printf("unknown command\n"), 2;
    }
  }
  return 0;
}

template <class Make>
int replay_all(const Options& options, const std::string& name, Make&& make) {
  Trace trace = load_trace(options.trace);
  auto&& peer = make();
  const char *who = name.c_str(), *file = options.trace.c_str();
  if (const char* threads = getenv("PEER_THREADS")) {
    Together best{1e18, 1e18};
    for (int rep = 0; rep < options.reps; ++rep) {
      Together found = replay_threads(peer, trace, std::max(1, atoi(threads)));
      if (found.cpu_ns_call < 0) return printf("%s,%s,OOM with threads\n", who, file), 1;
      best = {std::min(best.cpu_ns_call, found.cpu_ns_call), std::min(best.wall_ns_call, found.wall_ns_call)};
    }
    printf("%s,%s,threads=%s,cpu_ns_op=%.1f,wall_ns_op_all_threads=%.1f\n", who, file, threads, best.cpu_ns_call, best.wall_ns_call);
    return 0;
  }
  Replay<typename std::decay<decltype(peer)>::type> replay{peer, trace};
  double from = cpu_ns();
  int64_t stopped = replay.pass([] {}, [](bool) {});
  double cold = (cpu_ns() - from) / trace.calls();
  uint64_t reserved = peer.peak_reserved(), calls = peer.backing_calls();
  printf("%s,%s,", who, file);
  if (stopped >= 0) printf("OOM,op=%" PRId64, stopped); else printf("ok");
  printf(",peak_live=%" PRIu64 ",peak_reserved=%" PRIu64 ",backing_calls_cold=%" PRIu64 ",cold_ns=%.1f", trace.peak_live, reserved, calls, cold);
  if (stopped >= 0 || options.serve || !options.reps) printf("\n");
  if (stopped >= 0) return 1;
  if (options.serve) return serve(peer, trace, replay);
  if (!options.reps) return 0;
  std::vector<double> warm;
  for (int rep = 0; rep < options.reps; ++rep) {
    warm.push_back(replay.timed());
    if (warm.back() < 0) return printf(",OOM in a warm pass\n"), 1;
  }
  std::sort(warm.begin(), warm.end());
  printf(",warm_ns_best=%.1f,warm_ns_med=%.1f,", warm[0], warm[warm.size() / 2]);
  print_latencies(replay);
  printf(",backing_calls_all=%" PRIu64 ",peak_reserved_all=%" PRIu64 "\n", peer.backing_calls(), peer.peak_reserved());
  return 0;
}

// Ends the process without tearing anything down: some peers can't be.
template <class Make>
[[noreturn]] void run(const Options& options, const std::string& name, Make&& make) {
  int status = options.host ? host_memory(options, name, make) : replay_all(options, name, make);
  fflush(stdout);
  _exit(status);
}

[[noreturn]] inline void usage(const char* more) {
  fprintf(stderr, "usage: PROGRAM TRACE [--cap BYTES] [--reps N] [--serve] %s\n       PROGRAM --host [--cap BYTES] %s\n", more, more);
  exit(2);
}

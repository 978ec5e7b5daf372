// Reads an allocation trace for the replay programs. Columns are found by their names; see docs/formats.md.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unordered_map>
#include <vector>

enum class Row : uint8_t { Alloc, Free, Step, Sync, Use, Wait };

struct Op {
  Row row;
  uint32_t slot;   // of the block; of a wait, the stream that is waited for
  int32_t stream;  // -1 of a sync: all
  uint64_t bytes;
};

struct Trace {
  std::vector<Op> ops;
  uint32_t slots = 0;
  uint64_t allocs = 0, frees = 0, peak_live = 0;
  double calls() const { return double(allocs + frees); }
};

inline std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> all;
  size_t from = 0;
  for (;;) {
    size_t comma = line.find(',', from);
    all.push_back(line.substr(from, comma - from));
    if (comma == std::string::npos) return all;
    from = comma + 1;
  }
}

inline Trace load_trace(const std::string& path) {
  bool packed = path.size() > 3 && path.compare(path.size() - 3, 3, ".gz") == 0;
  FILE* file = packed ? popen(("gzip -dc '" + path + "'").c_str(), "r") : fopen(path.c_str(), "r");
  if (!file) { perror(path.c_str()); exit(2); }
  uint64_t number = 0;
  auto refuse = [&](const char* why) { fprintf(stderr, "%s:%llu: %s\n", path.c_str(), (unsigned long long)number, why); exit(2); };

  Trace trace;
  std::unordered_map<uint64_t, uint32_t> live;
  std::vector<uint32_t> spare;
  std::vector<uint64_t> sizes;
  size_t at[4] = {0, 0, 0, 0}, columns = 0;
  uint64_t bytes = 0;
  char text[4096];
  while (fgets(text, sizeof text, file)) {
    ++number;
    std::string line(text);
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    auto row = cells(line);
    if (!columns) {
      const char* names[] = {"op", "id", "bytes", "stream"};
      for (int name = 0; name < 4; ++name) {
        at[name] = std::find(row.begin(), row.end(), names[name]) - row.begin();
        if (at[name] == row.size()) refuse("a column is missing");
      }
      columns = row.size();
      continue;
    }
    if (row.size() < columns) refuse("a row is short");
    const std::string& kind = row[at[0]];
    uint64_t id = strtoull(row[at[1]].c_str(), nullptr, 10);
    Op op{Row::Step, 0, (int32_t)strtoll(row[at[3]].c_str(), nullptr, 10), 0};
    auto known = [&] {
      auto found = live.find(id);
      if (found == live.end()) refuse("no such block is live");
      return found->second;
    };
    if (kind == "alloc") {
      if (live.count(id)) refuse("the block is live already");
      op.row = Row::Alloc;
      op.bytes = strtoull(row[at[2]].c_str(), nullptr, 10);
      if (spare.empty()) { op.slot = trace.slots++; sizes.push_back(0); } else { op.slot = spare.back(); spare.pop_back(); }
      live[id] = op.slot;
      sizes[op.slot] = op.bytes;
      bytes += op.bytes;
      trace.peak_live = std::max(trace.peak_live, bytes);
      ++trace.allocs;
    } else if (kind == "free") {
      op.row = Row::Free;
      op.slot = known();
      op.bytes = sizes[op.slot];
      bytes -= op.bytes;
      spare.push_back(op.slot);
      live.erase(id);
      ++trace.frees;
    } else if (kind == "use") {
      op.row = Row::Use;
      op.slot = known();
    } else if (kind == "wait") {
      op.row = Row::Wait;
      op.slot = (uint32_t)id;
    } else if (kind == "sync") {
      op.row = Row::Sync;
    } else if (kind == "work") {
      continue;  // only for those that see nothing of the driver's calls
    } else if (kind != "step") {
      refuse("no such op");
    }
    trace.ops.push_back(op);
  }
  packed ? pclose(file) : fclose(file);
  // What is still live is freed at the end, so that the trace can be replayed again.
  std::vector<uint32_t> rest;
  for (auto& block : live) rest.push_back(block.second);
  std::sort(rest.begin(), rest.end());
  for (uint32_t slot : rest) { trace.ops.push_back({Row::Free, slot, 0, sizes[slot]}); ++trace.frees; }
  trace.ops.push_back({Row::Sync, 0, -1, 0});
  return trace;
}

#include "libexec/memory/available_memory.hpp"

#include <algorithm>
#include <fstream>
#include <string>

namespace stagecraft {
namespace {

namespace fs = std::filesystem;

/// MemAvailable, whose unit is 1024 bytes.
std::optional<Bytes> free_memory(fs::path const& meminfo) {
  std::ifstream file{meminfo};
  std::string key;
  std::int64_t amount = 0;
  for (std::string line; file >> key >> amount && std::getline(file, line);) {
    if (key == "MemAvailable:") return Bytes{amount * 1024};
  }
  return std::nullopt;
}

/// Reads a limit in bytes. Returns nullopt if the file is missing or says `max`.
std::optional<Bytes> limit_in(fs::path const& file) {
  std::int64_t bytes = 0;
  if (std::ifstream stream{file}; stream >> bytes) return Bytes{bytes};
  return std::nullopt;
}

void lower(std::optional<Bytes>& least, std::optional<Bytes> bytes) {
  if (bytes && (!least || *bytes < *least)) least = bytes;
}

/// The lowest limit of a group and its ancestors. `mount` is the root of the hierarchy.
std::optional<Bytes> group_limit(fs::path const& mount, fs::path group, char const* file) {
  std::optional<Bytes> least;
  while (true) {
    lower(least, limit_in(mount / group.relative_path() / file));
    if (group.relative_path().empty()) return least;
    group = group.parent_path();
  }
}

}  // namespace

std::optional<Bytes> available_memory(fs::path const& root) {
  std::optional<Bytes> least = free_memory(root / "proc/meminfo");
  fs::path const mount = root / "sys/fs/cgroup";
  std::ifstream groups{root / "proc/self/cgroup"};
  // `0::/group` of version 2, `4:memory:/group` of version 1.
  for (std::string line; std::getline(groups, line);) {
    std::size_t const first = line.find(':');
    std::size_t const second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string const controllers = line.substr(first + 1, second - first - 1);
    std::string const group = line.substr(second + 1);
    if (controllers.empty()) lower(least, group_limit(mount, group, "memory.max"));
    if (controllers == "memory") {
      lower(least, group_limit(mount / "memory", group, "memory.limit_in_bytes"));
    }
  }
  return least;
}

}  // namespace stagecraft

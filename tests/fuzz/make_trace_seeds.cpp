#include <filesystem>

#include "libsim/trace/trace_writer.hpp"

namespace {

using namespace stagecraft;

RankTrace small_rank(std::int32_t number, std::size_t rows) {
  RankTrace rank;
  rank.rank = rank.stage = number;
  rank.ops.resize(rows);
  rank.memory.resize(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    auto const value = static_cast<std::int64_t>(i);
    rank.ops.start[i] = 1000 * value;
    rank.ops.duration[i] = 900;
    rank.ops.op[i] = value % 2;
    rank.memory.time[i] = 1000 * value;
    rank.memory.of(Category::activations)[i] = value << 20;
  }
  return rank;
}

}  // namespace

/// make_trace_seeds FOLDER: writes small traces for trace_fuzz to start from.
int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::filesystem::path const folder{argv[1]};
  std::filesystem::create_directories(folder);
  Trace trace;
  trace.meta.plan = std::string(64, 'f');
  trace.meta.config = "model: {layers: 2}\n";
  trace.names = {.op = {"attention.qkv", "backward"}, .phase = {"forward"}, .stream = {"compute"}};
  write_trace(folder / "no_ranks.trace", trace);
  trace.ranks = {small_rank(0, 0)};
  write_trace(folder / "no_rows.trace", trace);
  trace.ranks = {small_rank(0, 5), small_rank(3, 40)};
  write_trace(folder / "two_ranks.trace", trace);
}

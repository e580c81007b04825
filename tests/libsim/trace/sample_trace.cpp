#include "tests/libsim/trace/sample_trace.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "libsim/trace/trace_writer.hpp"

namespace stagecraft {

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "stagecraft-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error{"could not make a folder"};
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() { std::filesystem::remove_all(path_); }

std::vector<std::string> TemporaryFolder::names() const {
  std::vector<std::string> names;
  for (auto const& entry : std::filesystem::directory_iterator{path_}) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<unsigned char> bytes_of(std::filesystem::path const& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

void write_bytes(std::filesystem::path const& path, std::vector<unsigned char> const& bytes) {
  std::ofstream file{path, std::ios::binary};
  file.write(reinterpret_cast<char const*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

Trace sample_trace(std::size_t rows) {
  Trace trace;
  trace.meta = {.program_version = "0.0 (commit none)",
                .command_line = "stagecraft simulate 'a file.yaml'",
                .config = "model:\n  layers: 2\n",
                .plan = std::string(64, 'a'),
                .device = "säge-a100",
                .clock = TraceClock::virtual_time};
  trace.names = {.op = {"attention.qkv", "send.activation"},
                 .phase = {"forward", "transfer"},
                 .stream = {"compute", "send_activation", "unused"}};
  for (std::int32_t const number : {0, 7}) {
    RankTrace& rank = trace.ranks.emplace_back();
    rank.rank = number;
    rank.stage = number / 4;
    rank.ops.resize(rows);
    rank.memory.resize(rows / 2);
    for (std::size_t i = 0; i < rows; ++i) {
      auto const value = static_cast<std::int64_t>(i);
      rank.ops.start[i] = 1'000'000'000'000 * value + number;
      rank.ops.duration[i] = 999'999'999'999 - value;
      rank.ops.op[i] = value % 2;
      rank.ops.phase[i] = value % 2;
      rank.ops.stream[i] = value % 2;
      rank.ops.layer[i] = value % 3 - 1;
      rank.ops.microbatch[i] = value;
      rank.ops.chunk[i] = value % 2;
      rank.ops.bytes[i] = 123'456'789'012'345 + value;
      rank.ops.flops[i] = value * value;
    }
    for (std::size_t i = 0; i < rows / 2; ++i) {
      auto const value = static_cast<std::int64_t>(i);
      rank.memory.time[i] = value / 2;
      for (std::size_t k = 0; k < rank.memory.bytes.size(); ++k) {
        rank.memory.bytes[k][i] = value * 1000 + static_cast<std::int64_t>(k);
      }
    }
  }
  return trace;
}

void write_changed_sample(std::filesystem::path const& path,
                          std::function<void(hid_t file)> const& change) {
  write_trace(path, sample_trace());
  hid_t const file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  if (file < 0) throw std::runtime_error{"could not open the sample"};
  change(file);
  H5Fclose(file);
}

void replace_start(hid_t file, hid_t type, std::vector<hsize_t> const& extents, hid_t properties) {
  char const* const name = "/ranks/0/ops/start";
  H5Ldelete(file, name, H5P_DEFAULT);
  hid_t const space = H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr);
  hid_t const dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  if (dataset < 0) throw std::runtime_error{"could not replace a dataset"};
  H5Dclose(dataset);
  H5Sclose(space);
  if (properties != H5P_DEFAULT) H5Pclose(properties);
}

hid_t chunked(hsize_t elements) {
  hid_t const properties = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(properties, 1, &elements);
  return properties;
}

}  // namespace stagecraft

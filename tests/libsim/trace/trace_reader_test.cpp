#include "libsim/trace/trace_reader.hpp"

#include <catch2/catch.hpp>

#include "libsim/trace/trace.hpp"
#include "libsim/trace/trace_writer.hpp"
#include "tests/libsim/trace/sample_trace.hpp"

namespace stagecraft::trace_reader_test {

namespace {

using Catch::Contains;

void read_everything(std::filesystem::path const& path) { TraceReader{path}.read_all(); }

/// Writes a changed sample as the program writes traces, unsound columns and all.
template <typename Change>
void write_unsound(std::filesystem::path const& path, Change change) {
  Trace trace = sample_trace();
  change(trace);
  write_trace(path, trace);
}

}  // namespace

TEST_CASE("what is no trace is refused with the file and what is wrong with it") {
  TemporaryFolder const folder;
  auto const path = folder.file("a.h5");
  REQUIRE_THROWS_AS(read_everything(path), TraceFileError);
  REQUIRE_THROWS_WITH(read_everything(path), Contains("a.h5: there is no such file"));
  REQUIRE_THROWS_WITH(read_everything(folder.path()), Contains("is not a file"));
  REQUIRE_THROWS_WITH(read_everything("/dev/null"), Contains("is not a file"));
  write_bytes(path, {});
  REQUIRE_THROWS_WITH(read_everything(path), Contains("a.h5: is not an HDF5 file"));
  write_bytes(path, {'m', 'o', 'd', 'e', 'l', ':'});
  REQUIRE_THROWS_WITH(read_everything(path), Contains("is not an HDF5 file"));

  write_trace(path, sample_trace());
  std::vector<unsigned char> bytes = bytes_of(path);
  bytes.resize(bytes.size() - 1);
  write_bytes(path, bytes);
  REQUIRE_THROWS_WITH(read_everything(path), Contains("is cut off"));
}

TEST_CASE("a file in memory is read as a file on disk is") {
  TemporaryFolder const folder;
  write_trace(folder.file("a.h5"), sample_trace());
  TraceReader const reader{bytes_of(folder.file("a.h5")), "an image"};
  REQUIRE(reader.read_all() == sample_trace());
  // Its name is for messages only: there is a file of that name, and another image.
  std::string const name = folder.file("a.h5").string();
  Trace other = sample_trace();
  other.meta.device = "other";
  write_trace(folder.file("b.h5"), other);
  TraceReader const first{bytes_of(folder.file("a.h5")), name};
  TraceReader const second{bytes_of(folder.file("b.h5")), name};
  REQUIRE(first.read_all() == sample_trace());
  REQUIRE(second.read_all() == other);
  REQUIRE_THROWS_WITH((TraceReader{std::vector<unsigned char>{}, "an image"}),
                      Contains("an image: is not an HDF5 file"));
}

TEST_CASE("single ranks can be read, in any order") {
  TemporaryFolder const folder;
  Trace const trace = sample_trace();
  write_trace(folder.file("a.h5"), trace);
  TraceReader const reader{folder.file("a.h5")};
  REQUIRE(reader.ranks() == std::vector<std::int32_t>{0, 7});
  REQUIRE(reader.read(7) == trace.ranks[1]);
  REQUIRE(reader.read(0) == trace.ranks[0]);
}

TEST_CASE("ranks come in the order of their numbers, not of their digits") {
  TemporaryFolder const folder;
  Trace trace = sample_trace();
  trace.ranks.clear();
  for (std::int32_t rank = 0; rank < 64; ++rank) {
    trace.ranks.push_back({.rank = rank, .stage = rank, .ops = {}, .memory = {}});
  }
  write_trace(folder.file("a.h5"), trace);
  REQUIRE(TraceReader{folder.file("a.h5")}.read_all() == trace);
}

TEST_CASE("another version, clock or a missing text is refused by name") {
  TemporaryFolder const folder;
  auto const path = folder.file("a.h5");
  auto const with_attribute = [&](char const* name, std::string const& text) {
    write_changed_sample(path, [&](hid_t file) {
      H5Adelete(file, name);
      if (text.empty()) return;
      hid_t const type = H5Tcopy(H5T_C_S1);
      H5Tset_size(type, text.size());
      hid_t const space = H5Screate(H5S_SCALAR);
      hid_t const attribute = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
      H5Awrite(attribute, type, text.data());
      H5Aclose(attribute);
      H5Sclose(space);
      H5Tclose(type);
    });
  };
  with_attribute("schema", "stagecraft.trace/2");
  REQUIRE_THROWS_WITH(
      read_everything(path),
      Contains("attribute schema: found 'stagecraft.trace/2'; accepted: 'stagecraft.trace/1'"));
  with_attribute("clock", "sundial\n");
  REQUIRE_THROWS_WITH(
      read_everything(path),
      Contains("attribute clock: found 'sundial\\n'; accepted: simulated, wall, virtual, solo"));
  with_attribute("plan", std::string(63, 'a') + "g");
  REQUIRE_THROWS_WITH(read_everything(path), Contains("accepted: 64 hexadecimal digits"));
  for (char const* const name :
       {"schema", "clock", "program_version", "command_line", "config", "plan", "device"}) {
    with_attribute(name, "");
    REQUIRE_THROWS_WITH(read_everything(path),
                        Contains(std::string{"attribute "} + name + ": there is none"));
  }
}

TEST_CASE("a missing group or column is refused by its path") {
  TemporaryFolder const folder;
  auto const path = folder.file("a.h5");
  for (char const* const missing :
       {"/names", "/names/op", "/names/phase", "/names/stream", "/ranks", "/ranks/0/ops",
        "/ranks/0/memory", "/ranks/0/ops/start", "/ranks/0/ops/flops", "/ranks/0/memory/time",
        "/ranks/0/memory/recomputed"}) {
    write_changed_sample(path, [&](hid_t file) { H5Ldelete(file, missing, H5P_DEFAULT); });
    REQUIRE_THROWS_WITH(read_everything(path), Contains(std::string{missing} + ": there is none"));
  }
}

TEST_CASE("what is no rank number under /ranks is refused") {
  TemporaryFolder const folder;
  auto const path = folder.file("a.h5");
  for (char const* const name : {"-1", "01", "+1", "x", "1 ", "99999999999", "2147483648"}) {
    write_changed_sample(path, [&](hid_t file) {
      std::string const whole = std::string{"/ranks/"} + name;
      H5Gclose(H5Gcreate2(file, whole.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    });
    REQUIRE_THROWS_WITH(read_everything(path), Contains(std::string{"found '"} + name + "'"));
  }
}

TEST_CASE("columns of unequal length are refused") {
  TemporaryFolder const folder;
  auto const path = folder.file("a.h5");
  write_unsound(path, [](Trace& trace) { trace.ranks[0].ops.flops.pop_back(); });
  REQUIRE_THROWS_WITH(read_everything(path),
                      Contains("/ranks/0/ops/flops: found 5 rows; accepted: 6"));
  write_unsound(path, [](Trace& trace) { trace.ranks[1].memory.time.push_back(9); });
  REQUIRE_THROWS_WITH(read_everything(path),
                      Contains("/ranks/7/memory/parameters: found 3 rows; accepted: 4"));
}

TEST_CASE("values that no trace has are refused with their row") {
  TemporaryFolder const folder;
  auto const path = folder.file("a.h5");
  auto const refuses = [&](auto change, std::string const& message) {
    write_unsound(path, [&](Trace& trace) { change(trace.ranks[0]); });
    REQUIRE_THROWS_WITH(read_everything(path), Contains(message));
  };
  refuses([](RankTrace& rank) { rank.ops.op[3] = 2; }, "/ranks/0/ops/op, row 3: found 2");
  refuses([](RankTrace& rank) { rank.ops.phase[1] = -1; }, "/ranks/0/ops/phase, row 1: found -1");
  refuses([](RankTrace& rank) { rank.ops.stream[0] = 3; }, "/ranks/0/ops/stream, row 0: found 3");
  refuses([](RankTrace& rank) { rank.ops.duration[5] = -5; },
          "/ranks/0/ops/duration, row 5: found -5");
  refuses([](RankTrace& rank) { rank.ops.start[2] = INT64_MAX; }, "/ranks/0/ops/start, row 2");
  refuses([](RankTrace& rank) { rank.memory.time[2] = 0, rank.memory.time[1] = 1; },
          "/ranks/0/memory/time: found a time before that of the row above it");
  refuses([](RankTrace& rank) { rank.memory.of(Category::optimizer)[1] = -1; },
          "/ranks/0/memory/optimizer, row 1: found -1");
  refuses([](RankTrace& rank) { rank.memory.of(Category::workspace)[1] = INT64_MAX; },
          "/ranks/0/memory/workspace, row 1");
}

}  // namespace stagecraft::trace_reader_test

#include "libsim/trace/trace_writer.hpp"

#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "libsim/host/file_error.hpp"
#include "libsim/trace/trace_reader.hpp"
#include "tests/libsim/trace/sample_trace.hpp"

namespace stagecraft::trace_writer_test {

namespace {

using Catch::Contains;

/// Lets no file of this process grow beyond `bytes`, as a full disk does.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_{std::signal(SIGXFSZ, SIG_IGN)} {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit const limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  FileSizeLimit(FileSizeLimit const&) = delete;
  FileSizeLimit(FileSizeLimit&&) = delete;
  FileSizeLimit& operator=(FileSizeLimit const&) = delete;
  FileSizeLimit& operator=(FileSizeLimit&&) = delete;
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

}  // namespace

TEST_CASE("what is written is read back, whatever its length") {
  TemporaryFolder const folder;
  // Nothing, one row, and around the 65,536 elements of a chunk.
  for (std::size_t const rows : {0, 1, 6, 65'535, 65'536, 65'537, 200'001}) {
    CAPTURE(rows);
    Trace const trace = sample_trace(rows);
    write_trace(folder.file("a.h5"), trace);
    REQUIRE(TraceReader{folder.file("a.h5")}.read_all() == trace);
  }
}

TEST_CASE("texts of a trace have no limit of 64 KiB, and may be empty") {
  TemporaryFolder const folder;
  Trace trace = sample_trace();
  trace.meta.config = std::string(1'000'000, 'x');
  trace.meta.command_line = "";
  trace.names.op[1] = "";
  write_trace(folder.file("a.h5"), trace);
  REQUIRE(TraceReader{folder.file("a.h5")}.read_all() == trace);
}

TEST_CASE("a trace without ranks and names is a trace") {
  TemporaryFolder const folder;
  Trace trace;
  trace.meta.plan = std::string(64, '0');
  write_trace(folder.file("a.h5"), trace);
  REQUIRE(TraceReader{folder.file("a.h5")}.read_all() == trace);
}

TEST_CASE("the same trace gives the same bytes, at another time and under another name") {
  TemporaryFolder const folder;
  write_trace(folder.file("a.h5"), sample_trace());
  timespec const longer_than_hdf5_tells_times_apart{1, 100'000'000};
  nanosleep(&longer_than_hdf5_tells_times_apart, nullptr);
  write_trace(folder.file("b.h5"), sample_trace());
  REQUIRE(bytes_of(folder.file("a.h5")) == bytes_of(folder.file("b.h5")));
}

TEST_CASE("until a trace is whole, its name holds what it held before") {
  TemporaryFolder const folder;
  auto const path = folder.file("a.h5");
  write_bytes(path, {1, 2, 3});
  Trace const trace = sample_trace();
  {
    TraceWriter writer{path, trace.meta, trace.names};
    writer.write(trace.ranks[0]);
    REQUIRE(folder.names() == std::vector<std::string>{"a.h5", "a.h5.partial"});
    REQUIRE(bytes_of(path) == std::vector<unsigned char>{1, 2, 3});
  }
  // The writer is gone without an end: so is what it had begun.
  REQUIRE(folder.names() == std::vector<std::string>{"a.h5"});
  REQUIRE(bytes_of(path) == std::vector<unsigned char>{1, 2, 3});
  write_trace(path, trace);
  REQUIRE(folder.names() == std::vector<std::string>{"a.h5"});
  REQUIRE(TraceReader{path}.read_all() == trace);
}

TEST_CASE("a path that cannot be written is refused with its reason, before any work") {
  TemporaryFolder const folder;
  Trace const trace = sample_trace();
  auto const open = [&](std::filesystem::path const& path) {
    TraceWriter{path, trace.meta, trace.names};
  };
  REQUIRE_THROWS_AS(open(folder.file("no/such/a.h5")), OutputError);
  REQUIRE_THROWS_WITH(open(folder.file("no/such/a.h5")),
                      Contains("no/such/a.h5") && Contains("No such file or directory"));
  REQUIRE_THROWS_WITH(open(folder.path()), Contains("not a regular file"));
  REQUIRE_THROWS_WITH(open("/dev/full"), Contains("not a regular file"));
  REQUIRE(folder.names().empty());
}

TEST_CASE("a disk that is full is an error with its reason, and leaves nothing behind") {
  TemporaryFolder const folder;
  Trace const trace = sample_trace(10'000);
  for (rlim_t const limit : {0, 100, 5'000, 20'000}) {
    CAPTURE(limit);
    FileSizeLimit const full{limit};
    REQUIRE_THROWS_AS(write_trace(folder.file("a.h5"), trace), OutputError);
    REQUIRE_THROWS_WITH(write_trace(folder.file("a.h5"), trace),
                        Contains("a.h5") && Contains("File too large"));
    REQUIRE(folder.names().empty());
  }
}

TEST_CASE("two traces can be written side by side") {
  TemporaryFolder const folder;
  Trace const trace = sample_trace();
  TraceWriter first{folder.file("a.h5"), trace.meta, trace.names};
  TraceWriter second{folder.file("b.h5"), trace.meta, trace.names};
  for (RankTrace const& rank : trace.ranks) {
    first.write(rank);
    second.write(rank);
  }
  first.finish();
  second.finish();
  REQUIRE(TraceReader{folder.file("a.h5")}.read_all() == trace);
  REQUIRE(TraceReader{folder.file("b.h5")}.read_all() == trace);
}

}  // namespace stagecraft::trace_writer_test

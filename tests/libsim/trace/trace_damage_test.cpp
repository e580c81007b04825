#include <catch2/catch.hpp>
#include <random>

#include "libsim/trace/trace.hpp"
#include "libsim/trace/trace_reader.hpp"
#include "libsim/trace/trace_writer.hpp"
#include "tests/libsim/trace/sample_trace.hpp"

namespace stagecraft::trace_damage_test {

namespace {

std::vector<unsigned char> sample_bytes() {
  TemporaryFolder const folder;
  write_trace(folder.file("a.h5"), sample_trace());
  return bytes_of(folder.file("a.h5"));
}

/// Whether the bytes are read as a trace at all.
bool is_read(std::vector<unsigned char> const& bytes) {
  try {
    TraceReader{bytes, "damaged"}.read_all();
    return true;
  } catch (TraceFileError const&) {
    return false;
  }
}

}  // namespace

TEST_CASE("a trace that is cut off anywhere is refused") {
  std::vector<unsigned char> const whole = sample_bytes();
  REQUIRE(is_read(whole));
  for (std::size_t length = 0; length < whole.size(); length += 311) {
    CAPTURE(length);
    REQUIRE_FALSE(is_read({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)}));
  }
}

TEST_CASE("a trace with flipped bits is read or refused, and nothing else happens") {
  std::vector<unsigned char> const whole = sample_bytes();
  std::mt19937 random{1};
  int refused = 0;
  for (int i = 0; i < 3'000; ++i) {
    std::vector<unsigned char> bytes = whole;
    for (int k = 0; k < 1 + i % 64; ++k) {
      bytes[random() % bytes.size()] ^= static_cast<unsigned char>(1U << random() % 8);
    }
    refused += is_read(bytes) ? 0 : 1;
  }
  // Most of a small file is room for more; what is left has checksums or must inflate.
  REQUIRE(refused > 300);
  REQUIRE(refused < 3'000);
}

}  // namespace stagecraft::trace_damage_test

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "libsim/allocator/sequence_file.hpp"
#include "libsim/host/file_error.hpp"
#include "tests/libsim/allocator/replayed.hpp"

namespace stagecraft::sequence_text_test {
namespace {

using Catch::Contains;

std::string refusal_of(std::string const& text) {
  try {
    read_sequence_text(text, "run.txt");
  } catch (InputError const& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("a wrong line of a sequence is refused with its number", "[allocator]") {
  auto const [line, message] = GENERATE(table<std::string, std::string>({
      {"x 1", "found 'x'; accepted: a, f, r, t, d, n, F, e, q"},
      {"alloc 2 512", "found a word of 5 characters"},
      {"a 2", "found the end of the line; accepted: SIZE"},
      {"a", "found the end of the line; accepted: ID"},
      {"a 1 512", "found ID 1, which is allocated already"},
      {"a 2 -512", "found '-512'; accepted: SIZE, a whole number from 0 to"},
      {"a 2 512 -1", "found '-1'; accepted: STREAM"},
      {"a 2 512 0 0", "found '0'; accepted: the end of the line"},
      {"a 2 1e3", "found '1e3'"},
      {"a 2 99999999999999999999", "found '99999999999999999999'"},
      {"f 2", "found ID 2, which is not allocated here"},
      {"r 2 1", "found ID 2"},
      {"r 1", "accepted: STREAM"},
      {"t -1", "found '-1'; accepted: DT"},
      {"d x", "found 'x'; accepted: DELAY"},
      {"n", "accepted: BYTES"},
      {"F 1.1", "found '1.1'; accepted: FRACTION, a number from 0 to 1"},
      {"F nan", "found 'nan'"},
      {"e 1", "found '1'; accepted: the end of the line"},
  }));
  std::string const refusal = refusal_of("a 1 512\n\n" + line + "\nq\n");
  REQUIRE_THAT(refusal, Catch::StartsWith("run.txt:3: ") && Contains(message));
}

TEST_CASE("an ID is used again after it is freed, and ends of lines may be those of Windows",
          "[allocator]") {
  REQUIRE(refusal_of("a 1 512\r\nf 1\r\na 1 1024 \r\nq") == "nothing");
  REQUIRE_THAT(refusal_of("a 1 512\nf 1\nf 1\n"), Contains("run.txt:3: found ID 1"));
}

TEST_CASE("more than 1024 streams are refused", "[allocator]") {
  std::string text;
  for (int i = 0; i <= 1024; ++i) text += "a " + text_of(i) + " 512 " + text_of(1000 + i) + "\n";
  REQUIRE_THAT(refusal_of(text), Contains("run.txt:1025: found more than 1024 different streams"));
}

TEST_CASE("a gzipped file that is cut short is refused", "[allocator]") {
  namespace fs = std::filesystem;
  fs::path const whole = fs::path{STAGECRAFT_SOURCE_DIR} / "tests/oracle/allocator/meg3.txt.gz";
  fs::path const cut = fs::temp_directory_path() / "stagecraft_cut_sequence.txt.gz";
  fs::copy_file(whole, cut, fs::copy_options::overwrite_existing);
  fs::resize_file(cut, fs::file_size(whole) / 2);
  REQUIRE_THROWS_WITH(read_sequence_file(cut), Contains("it is cut short"));
  fs::remove(cut);
  REQUIRE_THROWS_WITH(read_sequence_file("no-such-file"), Contains("cannot be opened"));
  REQUIRE_THROWS_WITH(read_sequence_file("/"), Contains("found a folder"));
}

}  // namespace stagecraft::sequence_text_test

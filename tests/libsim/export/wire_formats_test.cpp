#include <catch2/catch.hpp>
#include <set>

#include "libsim/export/chakra_nodes.hpp"
#include "libsim/export/json_text.hpp"
#include "libsim/export/pickle_writer.hpp"
#include "libsim/export/protobuf_writer.hpp"
#include "tests/libsim/trace/sample_trace.hpp"

namespace stagecraft::wire_formats_test {

TEST_CASE("protobuf fields are the bytes of the encoding guide's examples") {
  ProtobufMessage message;
  message.add(1, std::int64_t{150});
  REQUIRE(message.bytes() == "\x08\x96\x01");
  message.add(2, std::string_view{"testing"});
  REQUIRE(message.bytes() == "\x08\x96\x01\x12\x07testing");
  ProtobufMessage outer;
  outer.add(6, std::vector<std::int64_t>{3, 270, 86942});
  REQUIRE(outer.bytes() == "\x32\x06\x03\x8e\x02\x9e\xa7\x05");
  outer.add(7, std::vector<std::int64_t>{});
  REQUIRE(outer.bytes().size() == 8);
  REQUIRE(delimited(outer) == "\x08" + outer.bytes());
}

TEST_CASE(
    "messages of Chakra have tags of their own, however many microbatches and stages there are") {
  constexpr std::int64_t stages = 3;
  constexpr std::int64_t microbatches = 70'000;
  std::set<std::int64_t> tags;
  for (std::int64_t microbatch = 0; microbatch < microbatches; ++microbatch) {
    for (std::int64_t upper = 1; upper < stages; ++upper) {
      for (bool const is_gradient : {false, true}) {
        tags.insert(message_tag(upper, is_gradient, microbatch, stages));
      }
    }
  }
  REQUIRE(tags.size() == 2 * (stages - 1) * microbatches);
  REQUIRE(*tags.rbegin() < std::int64_t{1} << 30);  // those of shifts follow
}

TEST_CASE("a negative number takes ten bytes, as int64 does") {
  ProtobufMessage message;
  message.add(1, std::int64_t{-1});
  REQUIRE(message.bytes() == "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
}

TEST_CASE("a pickle has the opcodes of protocol 2, and a text that comes again is recalled") {
  TemporaryFolder const folder;
  OutputFile output{folder.file("p")};
  PickleWriter pickle{output};
  pickle.begin_dictionary();
  pickle.text("a");
  pickle.number(255);
  pickle.text("b");
  pickle.begin_list();
  pickle.text("a");
  pickle.end_element();
  pickle.number(-1);
  pickle.end_element();
  pickle.number(std::int64_t{1} << 40);
  pickle.end_element();
  pickle.end_list();
  pickle.end_dictionary();
  pickle.finish();
  output.finish();
  auto const bytes = bytes_of(folder.file("p"));
  std::string const expected{
      "\x80\x02}(X\x01\0\0\0aq\0K\xffX\x01\0\0\0bq\x01]("
      "h\0J\xff\xff\xff\xff\x8a\x08\0\0\0\0\0\x01\0\0eu.",
      44};
  REQUIRE(std::string{bytes.begin(), bytes.end()} == expected);
}

TEST_CASE("microseconds have three decimals, JSON strings no control characters") {
  std::string text;
  for (std::int64_t const time : {0, 7, 1234, 1'000'050}) {
    append_microseconds(text, time);
    text += ' ';
  }
  REQUIRE(text == "0.000 0.007 1.234 1000.050 ");
  REQUIRE(json_string("a\n\"\xff") == "\"a\\n\\\"\\ufffd\"");
  REQUIRE(nanoseconds_of(1'499) == 1);
  REQUIRE(nanoseconds_of(1'500) == 2);
}

}  // namespace stagecraft::wire_formats_test

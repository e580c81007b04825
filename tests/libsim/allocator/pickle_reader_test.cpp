#include "libsim/allocator/pickle_reader.hpp"

#include <catch2/catch.hpp>
#include <limits>

#include "libsim/host/file_error.hpp"

namespace stagecraft::pickle_reader_test {
namespace {

using Catch::Contains;
using Kind = PickleReader::Kind;

std::string bytes_of(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string{hex.substr(i, 2)}, nullptr, 16));
  }
  return bytes;
}

std::string refusal_of(std::string const& bytes) {
  try {
    PickleReader const reader{bytes, "snapshot.pickle"};
  } catch (InputError const& error) {
    return error.what();
  }
  return "nothing";
}

/// pickle.dumps({"a": [1, -2, 300, 70000, -5000000000, 2**63 - 1], "t": (1, "é", None, True),
/// "f": 1.5, "b": b"xy", "n": {"m": ()}}) of Python 3.11, protocols 3 (in which bytes are first
/// plain), 4 and 5.
constexpr std::string_view protocol_3 =
    "80037d71002858010000006171015d7102284b014afeffffff4d2c014a701101008a05000efad5fe8a08ffffffffff"
    "ffff7f655801000000747103284b015802000000c3a971044e887471055801000000667106473ff800000000000058"
    "01"
    "00000062710743027879710858010000006e71097d710a58010000006d710b2973752e";
constexpr std::string_view protocol_4 =
    "8004955f000000000000007d94288c0161945d94284b014afeffffff4d2c014a701101008a05000efad5fe8a08ffff"
    "ffffffffff7f658c017494284b018c02c3a9944e8874948c016694473ff80000000000008c01629443027879948c01"
    "6e"
    "947d948c016d942973752e";

}  // namespace

TEST_CASE("plain data that Python has pickled is read, by every protocol", "[allocator]") {
  std::string const later = "8005" + std::string{protocol_4.substr(4)};
  std::string const bytes = bytes_of(
      GENERATE_COPY(as<std::string>{}, std::string{protocol_3}, std::string{protocol_4}, later));
  PickleReader const reader{bytes, "test"};
  std::vector<std::int64_t> numbers;
  for (PickleValue const item : reader.items(reader.find(reader.root(), "a").value())) {
    numbers.push_back(reader.integer(item).value());
  }
  REQUIRE(numbers == std::vector<std::int64_t>{1, -2, 300, 70000, -5'000'000'000,
                                               std::numeric_limits<std::int64_t>::max()});
  auto const tuple = reader.items(reader.find(reader.root(), "t").value());
  REQUIRE(tuple.size() == 4);
  REQUIRE(reader.text(tuple[1]) == "é");
  REQUIRE(reader.kind(tuple[2]) == Kind::none);
  REQUIRE(reader.kind(tuple[3]) == Kind::boolean);
  REQUIRE(reader.text(reader.find(reader.root(), "b").value()) == "xy");
  PickleValue const inner = reader.find(reader.root(), "n").value();
  REQUIRE(reader.items(reader.find(inner, "m").value()).empty());
  REQUIRE(!reader.find(inner, "a"));
  REQUIRE(!reader.find(tuple[0], "a"));
}

TEST_CASE("a pickle that would run code is refused with the opcode and its place", "[allocator]") {
  auto const [bytes, message] = GENERATE(table<std::string, std::string>({
      // cos\nsystem\n(S'true'\ntR.
      {"\x80\x02"
       "cos\nsystem\n(X\x04" +
           std::string(3, '\0') + "truetR.",
       "byte 2: found the opcode GLOBAL"},
      {"\x80\x04\x8c\x02os\x8c\x06system\x93.", "byte 14: found the opcode STACK_GLOBAL"},
      {"\x80\x02)R.", "byte 3: found the opcode REDUCE, which would run code"},
      {"\x80\x02})b.", "the opcode BUILD"},
      {"\x80\x02(ios\nsystem\n.", "the opcode INST"},
      {"\x80\x02(o.", "the opcode OBJ"},
      {"\x80\x02Q.", "the opcode BINPERSID"},
      {"\x80\x02Pid\n.", "the opcode PERSID"},
      {"\x80\x02\x82\x01.", "the opcode EXT1"},
      {"\x80\x02)\x81.", "the opcode NEWOBJ"},
      {"\x80\x04)\x92.", "the opcode NEWOBJ_EX"},
      {"\x80\x05\x97.", "the opcode 0x97"},
      {"\x80\x06N.", "found protocol 6; accepted: protocols 2 to 5"},
      {"\x80\x02.", "an opcode that takes more than the stack has"},
      {"\x80\x02(N.N", "nothing"},
      {"\x80\x02Nu.", "an opcode that takes more than the stack has"},
      {"\x80\x02}(Nu.", "an opcode that takes more than the stack has"},
      {"\x80\x02](N(e.", "an opcode that takes more than the stack has"},
      {"\x80\x02h\x07.", "a reference to a value that is not there"},
      {"\x80\x02\x8a\x0a" + std::string(10, '\1') + ".", "an integer of more than 64 bits"},
  }));
  INFO(message);
  REQUIRE_THAT(refusal_of(bytes), Contains(message));
}

TEST_CASE("a pickle that is cut anywhere is refused", "[allocator]") {
  std::string const whole = bytes_of(protocol_4);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    REQUIRE_THAT(refusal_of(whole.substr(0, length)), Contains("found the end of the file"));
  }
  std::string const huge = std::string{"\x80\x04\x8d"} + std::string(8, '\x7f') + ".";
  REQUIRE_THAT(refusal_of(huge), Contains("found the end of the file"));
}

}  // namespace stagecraft::pickle_reader_test

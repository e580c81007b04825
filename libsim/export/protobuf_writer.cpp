#include "libsim/export/protobuf_writer.hpp"

#include "libsim/units/varint.hpp"

namespace stagecraft {

namespace {

constexpr int wire_varint = 0;
constexpr int wire_bytes = 2;

void append_key(std::string& bytes, int field, int wire_type) {
  append_varint(bytes, static_cast<std::uint64_t>(field) << 3 | static_cast<unsigned>(wire_type));
}

}  // namespace

void ProtobufMessage::add(int field, std::int64_t value) {
  append_key(bytes_, field, wire_varint);
  append_varint(bytes_, static_cast<std::uint64_t>(value));
}

void ProtobufMessage::add(int field, std::string_view text) {
  append_key(bytes_, field, wire_bytes);
  append_varint(bytes_, text.size());
  bytes_ += text;
}

void ProtobufMessage::add(int field, std::vector<std::int64_t> const& values) {
  if (values.empty()) return;
  std::string packed;
  for (std::int64_t const value : values) append_varint(packed, static_cast<std::uint64_t>(value));
  add(field, packed);
}

std::string delimited(ProtobufMessage const& message) {
  std::string bytes;
  append_varint(bytes, message.bytes().size());
  return bytes + message.bytes();
}

}  // namespace stagecraft

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// A message in the wire format of Protocol Buffers, built field by field.
/// Source: protobuf.dev/programming-guides/encoding.
class ProtobufMessage {
 public:
  /// Adds a field of type int32, int64, uint64, bool or enum.
  void add(int field, std::int64_t value);
  void add(int field, std::string_view text);
  void add(int field, ProtobufMessage const& message) { add(field, message.bytes()); }
  /// Adds a repeated, packed field, unless it is empty.
  void add(int field, std::vector<std::int64_t> const& values);

  std::string const& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// The message preceded by its length, as in files of several messages.
std::string delimited(ProtobufMessage const& message);

}  // namespace stagecraft

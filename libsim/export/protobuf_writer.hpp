#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// One message of Protocol Buffers, field by field, in their wire format.
/// Source: protobuf.dev/programming-guides/encoding.
class ProtobufMessage {
 public:
  /// int32, int64, uint64, bool and enum are all written like this.
  void add(int field, std::int64_t value);
  void add(int field, std::string_view text);
  void add(int field, ProtobufMessage const& message) { add(field, message.bytes()); }
  /// repeated, packed; nothing where it is empty.
  void add(int field, std::vector<std::int64_t> const& values);

  std::string const& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// The message behind its length, as files of several messages have them.
std::string delimited(ProtobufMessage const& message);

}  // namespace stagecraft

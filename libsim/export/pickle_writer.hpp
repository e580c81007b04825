#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/host/output_file.hpp"

namespace stagecraft {

/// Writes a Python pickle of dictionaries, lists, tuples of two, texts, integers and booleans:
/// protocol 2, and of it only what the memory viewer of PyTorch reads.
///
/// Values are written in the order in which the structure is read: open a dictionary, then key,
/// value, key, value, close it. Texts and lists that come again are written once.
/// Source: cpython, Lib/pickletools.py; pytorch, torch/utils/viz/MemoryViz.js.
class PickleWriter {
 public:
  explicit PickleWriter(OutputFile& output);

  void begin_dictionary();
  /// The pairs since begin_dictionary() are its own.
  void end_dictionary();
  void begin_list();
  /// An element of the innermost list is complete. Flushes now and then: the viewer cannot take
  /// more than some thousand elements at a time.
  void end_element();
  void end_list();

  void text(std::string_view text);
  void number(std::int64_t number);
  void boolean(bool value);
  void pair(std::int64_t first, std::int64_t second);

  /// Remembers the value that was just written. \return a number for recall()
  std::uint32_t remember();
  /// Writes a remembered value again.
  void recall(std::uint32_t number);

  /// Nothing can be written afterwards; the file is finished by its owner.
  void finish();

 private:
  void put(unsigned char byte);
  void put_little_endian(std::uint64_t value, int bytes);

  OutputFile& output_;
  std::string waiting_;
  std::map<std::string, std::uint32_t, std::less<>> texts_;
  std::uint32_t remembered_ = 0;
  std::vector<int> open_;  ///< elements since the last flush, of each list that is open
};

}  // namespace stagecraft

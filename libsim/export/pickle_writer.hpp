#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/host/output_file.hpp"

namespace stagecraft {

/// Writes a Python pickle of dictionaries, lists, pairs, texts, integers and booleans, with only
/// those parts of protocol 2 that the memory viewer of PyTorch reads.
///
/// Values are written in the order in which one reads the structure: begin a dictionary, then key,
/// value, key, value, end it. Repeated texts and lists are written once.
/// Source: cpython, Lib/pickletools.py; pytorch, torch/utils/viz/MemoryViz.js.
class PickleWriter {
 public:
  explicit PickleWriter(OutputFile& output);

  void begin_dictionary();
  /// Ends the dictionary of the pairs since begin_dictionary().
  void end_dictionary();
  void begin_list();
  /// Ends an element of the innermost list. Flushes from time to time: the viewer accepts only a
  /// few thousand elements at a time.
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

  /// Ends the pickle; nothing can be written afterwards. The owner of the file finishes the file.
  void finish();

 private:
  void put(unsigned char byte);
  void put_little_endian(std::uint64_t value, int bytes);

  OutputFile& output_;
  std::string waiting_;
  std::map<std::string, std::uint32_t, std::less<>> texts_;
  std::uint32_t remembered_ = 0;
  std::vector<int> open_;  ///< for each open list, the elements since the last flush
};

}  // namespace stagecraft

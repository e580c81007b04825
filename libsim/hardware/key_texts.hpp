#pragma once

#include <span>
#include <string_view>

namespace stagecraft {

/// A key of a system, software or run file, for those who write one.
struct KeyText {
  std::string_view key;      ///< dotted, such as "network.bandwidth"
  std::string_view accepts;  ///< "a rate", "a time"
  std::string_view meaning;  ///< a sentence or more
  /// The default as `--print-config` writes it, what it is taken from, or "required". Empty in
  /// system and software files, whose keys are all inherited or say it themselves.
  std::string_view fallback{};
};

/// Every key of a system file, in the order of visit_system().
std::span<KeyText const> system_keys();

/// Every key of a software file, in the order of visit_software().
std::span<KeyText const> software_keys();

}  // namespace stagecraft

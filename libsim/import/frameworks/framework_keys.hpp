#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/config/config_node.hpp"
#include "libsim/import/omissions.hpp"

namespace stagecraft {

/// A key of a framework's file that its import does not read. A row whose key is a section is of
/// all keys below it.
struct UnreadKey {
  std::string_view key;  ///< dotted
  OmittedEffect effect = OmittedEffect::none;
  std::string_view direction{};    ///< as Omission's
  std::string_view consequence{};  ///< as Omission's
};

/// Reads a framework's file by dotted keys and remembers which keys were read. finish() leaves out
/// the others. A key whose value is `null` counts as absent.
///
/// Problems go to the node's diagnostics and reading continues without the value.
class FrameworkKeys {
 public:
  /// All must outlive this object.
  FrameworkKeys(ConfigNode const& root, std::span<UnreadKey const> unread, Omissions& omissions);

  /// The value of a key, which is then read.
  std::optional<ConfigNode> find(std::string_view key);
  bool has(std::string_view key) { return find(key).has_value(); }
  /// Whether the value is `auto`, which the program that starts training settles.
  bool is_auto(std::string_view key);

  /// A whole number, which may be written as `5e8`.
  std::optional<std::int64_t> count(std::string_view key, std::int64_t smallest);
  std::optional<double> number(std::string_view key, NumberRange range);
  std::optional<std::string> text(std::string_view key);
  /// false if there is none; `True` and `"true"` are true.
  bool is_true(std::string_view key);

  /// Reports the value of a key as wrong, or that there is none.
  void report(std::string_view key, std::string accepted);
  /// The same for a value that the file does not say.
  void report(std::string_view key, std::string found, std::string accepted);

  /// Leaves out a value that was read and cannot be said; if omissions are strict, reports it
  /// unless --ignore names it. Pre: the file has the key.
  void leave_out(std::string_view key,
                 OmittedEffect effect,
                 std::string direction,
                 std::string consequence);

  /// Adds a text that the user sees beside the result.
  void note(std::string text) { notes_.push_back(std::move(text)); }

  /// Leaves out all that was not read. \return the notes
  std::vector<std::string> finish();

 private:
  void leave_out(ConfigNode const& value,
                 std::string const& key,
                 OmittedEffect effect,
                 std::string direction,
                 std::string consequence);
  void leave_out_unread(ConfigNode const& value);
  bool is_read(std::string_view key) const;
  /// The row of the key or of the smallest section around it; null: there is none.
  UnreadKey const* find_unread(std::string_view key) const;

  ConfigNode const& root_;
  std::span<UnreadKey const> unread_;
  Omissions& omissions_;
  std::vector<std::string> read_;
  std::vector<std::string> notes_;
};

}  // namespace stagecraft

#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// What an import may leave out although it matters, as `--ignore KEY,KEY` says. Names are those
/// of config.json's keys or of Megatron's flags, with or without leading dashes.
class IgnoreList {
 public:
  IgnoreList() = default;
  explicit IgnoreList(std::vector<std::string> const& names);

  /// Whether `name` is to be ignored; it then counts as used.
  bool covers(std::string_view name);

  /// Names that were never looked up, sorted; they are probably misspelt.
  std::vector<std::string> unused() const;

 private:
  std::set<std::string, std::less<>> names_;
  std::set<std::string, std::less<>> used_;
};

}  // namespace stagecraft

#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// What the user lets an import leave out although it matters: `--ignore KEY,KEY`. Names are those
/// of config.json's keys or of Megatron's flags; leading dashes do not count.
class IgnoreList {
 public:
  IgnoreList() = default;
  explicit IgnoreList(std::vector<std::string> const& names);

  /// Whether `name` is to be left out; it then counts as used.
  bool covers(std::string_view name);

  /// Names that nothing asked for, sorted: probably misspelt.
  std::vector<std::string> unused() const;

 private:
  std::set<std::string, std::less<>> names_;
  std::set<std::string, std::less<>> used_;
};

/// The parts of a list `a,b,c`, empty ones left out.
std::vector<std::string> split_list(std::string_view text);

}  // namespace stagecraft

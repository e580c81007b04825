#include "libsim/import/ignore_list.hpp"

#include <algorithm>

namespace stagecraft {
namespace {

std::string_view without_dashes(std::string_view name) {
  std::size_t const first = name.find_first_not_of('-');
  return first == std::string_view::npos ? std::string_view{} : name.substr(first);
}

}  // namespace

IgnoreList::IgnoreList(std::vector<std::string> const& names) {
  for (std::string const& name : names) names_.emplace(without_dashes(name));
}

bool IgnoreList::covers(std::string_view name) {
  auto const found = names_.find(without_dashes(name));
  if (found == names_.end()) return false;
  used_.insert(*found);
  return true;
}

std::vector<std::string> IgnoreList::unused() const {
  std::vector<std::string> unused;
  std::set_difference(names_.begin(), names_.end(), used_.begin(), used_.end(),
                      std::back_inserter(unused));
  return unused;
}

}  // namespace stagecraft

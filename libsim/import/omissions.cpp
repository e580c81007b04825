#include "libsim/import/omissions.hpp"

#include <algorithm>
#include <iterator>

namespace stagecraft {
namespace {

std::string_view without_dashes(std::string_view name) {
  std::size_t const first = name.find_first_not_of('-');
  return first == std::string_view::npos ? std::string_view{} : name.substr(first);
}

std::string_view size_of(OmittedEffect effect) {
  switch (effect) {
    case OmittedEffect::none:
      return "no effect";
    case OmittedEffect::small:
      return "small effect (below 1 %)";
    case OmittedEffect::large:
      return "large effect";
    case OmittedEffect::unknown:
      break;
  }
  return "unknown effect";
}

}  // namespace

std::string unquoted(std::string const& found) {
  std::size_t const start = found.find('\'');
  std::size_t const end = found.rfind('\'');
  return start == end ? found : found.substr(start + 1, end - start - 1);
}

std::string text_of(Omission const& omission) {
  std::string text = "left out: " + omission.name;
  if (!omission.value.empty()) text += " " + omission.value;
  text += ": " + std::string{size_of(omission.effect)};
  if (!omission.direction.empty()) text += ", " + omission.direction;
  if (!omission.consequence.empty()) text += "; " + omission.consequence;
  return text;
}

Omissions::Omissions(std::vector<std::string> const& ignored, Strictness strictness)
    : strictness_{strictness} {
  for (std::string const& name : ignored) names_.emplace(without_dashes(name));
}

bool Omissions::ignores(std::string_view name) {
  auto const found = names_.find(without_dashes(name));
  if (found == names_.end()) return false;
  used_.insert(*found);
  return true;
}

std::vector<std::string> Omissions::unused() const {
  std::vector<std::string> unused;
  std::set_difference(names_.begin(), names_.end(), used_.begin(), used_.end(),
                      std::back_inserter(unused));
  return unused;
}

}  // namespace stagecraft

#include "libsim/import/layer_list.hpp"

#include <algorithm>
#include <cstddef>

#include "libsim/units/parse_number.hpp"
#include "libsim/units/split_text.hpp"

namespace stagecraft {
namespace {

/// One term of a list: [0,1] or [0,1]*N.
bool append_term(std::string_view term, std::size_t most, std::vector<bool>& sparse) {
  std::size_t const close = term.find(']');
  if (!term.starts_with('[') || close == std::string_view::npos) return false;
  std::string_view const after = term.substr(close + 1);
  std::optional<std::int64_t> times = 1;
  if (!after.empty()) {
    times = after.starts_with('*') ? parse_number<std::int64_t>(after.substr(1)) : std::nullopt;
  }
  std::vector<bool> once;
  for (std::string_view const word : split_text(term.substr(1, close - 1), ",")) {
    if (word != "0" && word != "1") return false;
    once.push_back(word == "1");
  }
  if (!times || *times < 0 || static_cast<std::size_t>(*times) > most) return false;
  for (std::int64_t i = 0; i < *times && sparse.size() <= most; ++i) {
    sparse.insert(sparse.end(), once.begin(), once.end());
  }
  return true;
}

}  // namespace

std::string layer_list(std::vector<bool> const& layers) {
  std::string text;
  for (std::size_t first = 0; first < layers.size();) {
    std::size_t end = first + 1;
    while (end < layers.size() && layers[end] == layers[first]) ++end;
    text += text.empty() ? "" : "+";
    text += layers[first] ? "[1]*" : "[0]*";
    text += std::to_string(end - first);
    first = end;
  }
  return text;
}

std::optional<std::vector<bool>> parse_layer_list(std::string_view text, std::int64_t layers) {
  auto const most = static_cast<std::size_t>(std::max<std::int64_t>(layers, 0));
  std::vector<bool> sparse;
  if (text.starts_with('(') && text.ends_with(')')) text = text.substr(1, text.size() - 2);
  for (std::string_view const term : split_text(text, "+")) {
    if (!append_term(term, most, sparse)) return std::nullopt;
  }
  if (sparse.size() != most) return std::nullopt;
  return sparse;
}

}  // namespace stagecraft

#include "libsim/import/pipeline_layout.hpp"

#include <algorithm>
#include <charconv>

namespace stagecraft {
namespace {

constexpr std::size_t longest = std::size_t{1} << 20;  // letters, with repetitions written out
constexpr int deepest = 16;                            // nested brackets

/// Rewrites a layout without brackets and repetitions. `at_` is the next letter to read; once
/// `failed_` is set, because the layout is malformed or too long, the result is empty.
class Unroller {
 public:
  explicit Unroller(std::string_view text) : text_{text} {}

  std::optional<std::string> run() {
    std::string const all = sequence(0);
    return failed_ || at_ != text_.size() ? std::nullopt : std::optional{all};
  }

 private:
  std::string sequence(int depth) {
    std::string all;
    while (!failed_ && at_ < text_.size() && text_[at_] != ')') {
      std::string part;
      char const c = text_[at_++];
      if (c == ',' || c == ' ') continue;
      if (c == '(') {
        if (depth == deepest) failed_ = true;
        if (!failed_) part = sequence(depth + 1);
        failed_ = failed_ || at_ >= text_.size();
        ++at_;
      } else if (std::string_view{"EtmL|"}.find(c) != std::string_view::npos) {
        part = c;
      } else {
        failed_ = true;
      }
      std::size_t const times = repetitions();
      if (failed_ || times > longest || all.size() + part.size() * times > longest) {
        failed_ = true;
        break;
      }
      for (std::size_t i = 0; i < times; ++i) all += part;
    }
    return all;
  }

  std::size_t repetitions() {
    if (at_ >= text_.size() || text_[at_] != '*') return 1;
    std::size_t times = 0;
    char const* const start = text_.data() + at_ + 1;
    auto const [end, error] = std::from_chars(start, text_.data() + text_.size(), times);
    if (error != std::errc{}) failed_ = true;
    at_ = static_cast<std::size_t>(end - text_.data());
    return times;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace

std::optional<std::vector<std::int64_t>> parse_pipeline_layout(std::string_view text,
                                                               std::int64_t modules) {
  std::optional<std::string> const unrolled = Unroller{text}.run();
  if (!unrolled || unrolled->empty()) return std::nullopt;
  std::string letters = *unrolled;
  bool const has_ends = letters.front() == 'E' && letters.back() == 'L' &&
                        std::count(letters.begin(), letters.end(), 'E') == 1 &&
                        std::count(letters.begin(), letters.end(), 'L') == 1;
  std::string const end = std::string(static_cast<std::size_t>(modules), 'm') + 'L';
  if (!has_ends || !letters.ends_with(end) ||
      std::count(letters.begin(), letters.end(), 'm') != modules) {
    return std::nullopt;
  }
  std::vector<std::int64_t> layers{0};
  for (char const letter : letters) {
    if (letter == '|') layers.push_back(0);
    if (letter == 't') ++layers.back();
  }
  return layers;
}

std::string pipeline_layout(std::vector<std::int64_t> const& layers, std::int64_t modules) {
  std::string text = "E";
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    if (stage > 0) text += '|';
    if (layers[stage] > 0) text += 't';
    if (layers[stage] > 1) text += '*' + std::to_string(layers[stage]);
  }
  return text + std::string(static_cast<std::size_t>(modules), 'm') + 'L';
}

}  // namespace stagecraft

#include "libsim/import/shell/shell_condition.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "libsim/import/shell/shell_arithmetic.hpp"
#include "libsim/import/shell/shell_expansion.hpp"
#include "libsim/import/shell/shell_parameters.hpp"
#include "libsim/units/parse_number.hpp"

namespace stagecraft {
namespace {

using Truth = std::optional<bool>;

/// A word or operator of a test.
struct TestItem {
  std::string text;
  std::string pattern;    ///< the word as the right side of == in `[[ ]]`
  bool is_quoted = true;  ///< if not, `[ -n $A ]` has no operand if A is empty
};

constexpr std::array<std::string_view, 17> binary_words{"=",   "==",  "!=",  "=~",  "<",   ">",
                                                        "-eq", "-ne", "-lt", "-le", "-gt", "-ge",
                                                        "-ef", "-nt", "-ot", "\\<", "\\>"};

bool is_unary(std::string_view word) {
  return word.size() == 2 && word[0] == '-' &&
         std::string_view{"bcdefghknprstuvwxzGLNOS"}.find(word[1]) != std::string_view::npos;
}

Truth negated(Truth truth) { return truth ? Truth{!*truth} : truth; }

Truth both(Truth left, Truth right) {
  if ((left && !*left) || (right && !*right)) return false;
  return left && right ? Truth{true} : std::nullopt;
}

Truth either(Truth left, Truth right) { return negated(both(negated(left), negated(right))); }

/// A parser of one test; `is_long_` is one in `[[ ]]`.
class TestReader {
 public:
  TestReader(std::vector<TestItem> items, bool is_long, ShellVariables const& variables)
      : items_{std::move(items)}, is_long_{is_long}, variables_{variables} {}

  Truth run() {
    if (items_.empty()) return false;
    Truth const truth = any();
    return at_ == items_.size() ? truth : std::nullopt;
  }

 private:
  static constexpr int deepest_ = 32;

  std::string_view word(std::size_t ahead = 0) const {
    return at_ + ahead < items_.size() ? std::string_view{items_[at_ + ahead].text}
                                       : std::string_view{};
  }
  bool takes(std::string_view long_word, std::string_view short_word) {
    if (at_ >= items_.size() || word() != (is_long_ ? long_word : short_word)) return false;
    ++at_;
    return true;
  }

  Truth any() {
    Truth truth = all();
    while (takes("||", "-o")) truth = either(truth, all());
    return truth;
  }
  Truth all() {
    Truth truth = one();
    while (takes("&&", "-a")) truth = both(truth, one());
    return truth;
  }
  Truth one() {
    std::size_t const left = items_.size() - std::min(at_, items_.size());
    if (left == 0 || ++depth_ > deepest_) return std::nullopt;
    Truth truth;
    if (left >= 3 && std::ranges::find(binary_words, word(1)) != binary_words.end()) {
      truth = compare(items_[at_], word(1), items_[at_ + 2]);
      at_ += 3;
    } else if (left >= 2 && word() == "!") {
      ++at_;
      truth = negated(one());
    } else if (left >= 3 && (word() == "(" || word() == "\\(")) {
      ++at_;
      truth = any();
      if (word() != ")") return std::nullopt;
      ++at_;
    } else if (left >= 2 && is_unary(word())) {
      truth = unary(word()[1], items_[at_ + 1]);
      at_ += 2;
    } else {
      truth = is_filled(items_[at_++]);
    }
    --depth_;
    return truth;
  }

  /// Whether a word is not empty. What the script does not set is; of a command's output that is
  /// not known.
  Truth is_filled(TestItem const& item) const {
    if (!is_unresolved(item.text)) return !item.text.empty();
    for (std::string const& name : stagecraft::open_names(item.text)) {
      if (variables_.contains(name)) return std::nullopt;
    }
    bool const is_output =
        item.text.find("$(") != std::string::npos || item.text.find('`') != std::string::npos;
    return is_output ? std::nullopt : Truth{false};
  }

  Truth unary(char kind, TestItem const& operand) const {
    if (kind == 'v' && !is_unresolved(operand.text)) {
      auto const variable = variables_.find(operand.text);
      return variable != variables_.end() && !variable->second.elements.empty();
    }
    if (kind != 'z' && kind != 'n') return std::nullopt;
    Truth const truth = is_filled(operand);
    // `[ -n $A ]` is a test of the word -n alone if A is empty.
    if (!is_long_ && !operand.is_quoted && truth && !*truth) return true;
    return kind == 'n' ? truth : negated(truth);
  }

  std::optional<std::int64_t> number_in(std::string const& text) const {
    if (!is_long_) return parse_number<std::int64_t>(text);
    return text.empty() ? std::optional<std::int64_t>{0} : shell_arithmetic(text, variables_);
  }

  Truth compare(TestItem const& left, std::string_view operation, TestItem const& right) const {
    bool const is_equality = operation == "=" || operation == "==" || operation == "!=";
    bool const is_left_open = is_unresolved(left.text);
    if (is_left_open || is_unresolved(right.text)) {
      // A comparison with nothing is a test whether the word is empty.
      std::string const& known = is_left_open ? right.text : left.text;
      if (!is_equality || !known.empty()) return std::nullopt;
      Truth const is_empty = negated(is_filled(is_left_open ? left : right));
      return operation == "!=" ? negated(is_empty) : is_empty;
    }
    if (is_equality) {
      bool const is_same = is_long_ ? matches_with_options(left.text, right.pattern, variables_)
                                    : left.text == right.text;
      return is_same == (operation != "!=");
    }
    if (operation == "<" || operation == "\\<") return left.text < right.text;
    if (operation == ">" || operation == "\\>") return left.text > right.text;
    if (operation[0] != '-') return std::nullopt;
    auto const a = number_in(left.text);
    auto const b = number_in(right.text);
    // `[` reports an operand that is not a number as an error, and fails.
    if (!a || !b) return is_long_ ? std::nullopt : Truth{false};
    if (operation == "-eq") return *a == *b;
    if (operation == "-ne") return *a != *b;
    if (operation == "-lt") return *a < *b;
    if (operation == "-le") return *a <= *b;
    if (operation == "-gt") return *a > *b;
    if (operation == "-ge") return *a >= *b;
    return std::nullopt;
  }

  std::vector<TestItem> items_;
  bool is_long_;
  ShellVariables const& variables_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

std::string as_one_word(ShellWord const& written, ShellVariables const& variables) {
  std::string text;
  for (ShellWord const& word : expand(written, variables)) {
    text += (text.empty() ? "" : " ") + word.text;
  }
  return text;
}

bool is_bare(std::string_view written) { return written.find_first_of("\"'") == written.npos; }

}  // namespace

std::optional<bool> holds(std::vector<ShellToken> const& test, ShellVariables const& variables) {
  auto token = test.begin();
  bool is_negated = false;
  for (; token != test.end() && token->word.text == "!"; ++token) is_negated = !is_negated;
  if (token == test.end()) return std::nullopt;
  bool const is_long = token->word.text == "[[";
  std::string const close = is_long ? "]]" : token->word.text == "[" ? "]" : "";
  std::vector<TestItem> items;
  for (++token; token != test.end() && (close.empty() || token->word.text != close); ++token) {
    if (token->kind == ShellToken::Kind::operation && !is_long) {
      if (token + 1 != test.end()) ++token;  // a redirection
      continue;
    }
    bool const is_operator = token->kind == ShellToken::Kind::operation ||
                             token->word.text == "\\(" || token->word.text == "\\)";
    if (is_operator) {
      items.push_back({token->word.text == "\\)" ? ")" : token->word.text, {}, true});
    } else if (is_long) {
      items.push_back({as_one_word(token->word, variables), expand_pattern(token->word, variables),
                       !is_bare(token->word.text)});
    } else {
      for (ShellWord const& word : expand(token->word, variables)) {
        items.push_back({word.text, {}, !is_bare(token->word.text)});
      }
    }
  }
  Truth const truth = TestReader{std::move(items), is_long, variables}.run();
  return is_negated ? negated(truth) : truth;
}

std::vector<std::string> open_names(std::vector<ShellToken> const& tokens,
                                    ShellVariables const& variables) {
  std::vector<std::string> names;
  for (ShellToken const& token : tokens) {
    for (ShellWord const& word : expand(token.word, variables)) {
      for (std::string& name : open_names(word.text)) {
        if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
      }
    }
  }
  return names;
}

}  // namespace stagecraft

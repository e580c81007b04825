#include "libsim/import/shell/shell_condition.hpp"

#include <cstdint>
#include <string>
#include <string_view>

#include "libsim/import/shell/shell_expansion.hpp"
#include "libsim/units/parse_number.hpp"

namespace stagecraft {
namespace {

using Truth = std::optional<bool>;

Truth compare(std::string const& left, std::string_view operation, std::string const& right) {
  if (is_unresolved(left) || is_unresolved(right)) return std::nullopt;
  if (operation == "=" || operation == "==") return left == right;
  if (operation == "!=") return left != right;
  auto const a = parse_number<std::int64_t>(left);
  auto const b = parse_number<std::int64_t>(right);
  if (!a || !b) return std::nullopt;
  if (operation == "-eq") return *a == *b;
  if (operation == "-ne") return *a != *b;
  if (operation == "-lt") return *a < *b;
  if (operation == "-le") return *a <= *b;
  if (operation == "-gt") return *a > *b;
  if (operation == "-ge") return *a >= *b;
  return std::nullopt;
}

/// One test, without its brackets.
Truth test(std::vector<std::string> words) {
  bool negated = false;
  while (!words.empty() && words.front() == "!") {
    negated = !negated;
    words.erase(words.begin());
  }
  Truth truth;
  if (words.size() == 2 && (words[0] == "-z" || words[0] == "-n")) {
    bool const is_empty = words[1].empty() || is_unresolved(words[1]);
    truth = is_empty == (words[0] == "-z");
  } else if (words.size() == 3) {
    truth = compare(words[0], words[1], words[2]);
  } else if (words.size() == 1 && !is_unresolved(words[0])) {
    if (words[0] == "true") truth = true;
    if (words[0] == "false") truth = false;
  }
  return truth ? Truth{*truth != negated} : truth;
}

/// An empty variable without quotes expands to no word, but a test still needs an operand.
std::string as_one_word(ShellWord const& written, ShellVariables const& variables) {
  std::string text;
  for (ShellWord const& word : expand(written, variables)) {
    text += (text.empty() ? "" : " ") + word.text;
  }
  return text;
}

Truth joined(Truth left, std::string_view operation, Truth right) {
  bool const is_and = operation == "&&";
  if (left && *left != is_and) return left;
  if (right && *right != is_and) return right;
  return left && right ? Truth{is_and} : std::nullopt;
}

}  // namespace

std::optional<bool> holds(std::vector<ShellToken> const& condition,
                          ShellVariables const& variables) {
  Truth truth;
  std::string pending;  // the operator between the tests so far and the next one
  std::vector<std::string> words;
  bool is_first = true;
  auto const finish = [&] {
    Truth const next = test(words);
    truth = is_first ? next : joined(truth, pending, next);
    is_first = false;
    words.clear();
  };
  for (ShellToken const& token : condition) {
    std::string const& text = token.word.text;
    if (token.kind == ShellToken::Kind::operation && (text == "&&" || text == "||")) {
      finish();
      pending = text;
    } else if (token.kind == ShellToken::Kind::operation && text != ";") {
      return std::nullopt;
    } else if (token.kind == ShellToken::Kind::word && text != "[" && text != "]" && text != "[[" &&
               text != "]]") {
      words.push_back(as_one_word(token.word, variables));
    }
  }
  finish();
  return truth;
}

}  // namespace stagecraft

#include "tests/libexec/cuda_ptx/source.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>
#include <sstream>

namespace stagecraft::ptx {
namespace {

bool is_blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

std::string trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return std::string{text};
}

std::vector<std::string> words_of(std::string const& text) {
  std::istringstream in{text};
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

/// With blanks in place of comments; lines stay where they are.
std::string without_comments(std::string_view text) {
  std::string result{text};
  for (std::size_t i = 0; i + 1 < result.size(); ++i) {
    if (result[i] != '/' || (result[i + 1] != '/' && result[i + 1] != '*')) continue;
    bool const is_line = result[i + 1] == '/';
    std::size_t const found = is_line ? result.find('\n', i) : result.find("*/", i + 2);
    std::size_t const end = std::min(found, result.size() - 2) + (is_line ? 0 : 2);
    for (; i < end; ++i) {
      if (result[i] != '\n') result[i] = ' ';
    }
  }
  return result;
}

/// ".align 8 .b8 name[16] = {1, 2}", after its state space.
Variable variable_of(std::string const& space, std::string const& declaration) {
  Variable variable{.space = space, .name = {}};
  std::size_t const equals = declaration.find('=');
  std::vector<std::string> const words = words_of(declaration.substr(0, equals));
  Type element{};
  std::size_t count = 1;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == ".align" && i + 1 < words.size()) {
      variable.alignment = std::stoul(words[++i]);
    } else if (words[i].front() == '.') {
      element = type_of(std::string_view{words[i]}.substr(1));
    } else {
      std::size_t const bracket = words[i].find('[');
      variable.name = words[i].substr(0, bracket);
      if (bracket != std::string::npos) {
        std::string const size = words[i].substr(bracket + 1, words[i].find(']') - bracket - 1);
        count = size.empty() ? 0 : std::stoul(size);
      }
    }
  }
  if (variable.name.empty() || element.bits == 0) {
    throw SourceError{"a variable that this interpreter cannot read: " + declaration};
  }
  auto const bytes = static_cast<std::size_t>(element.bytes());
  variable.bytes = count * bytes;
  variable.alignment = std::max(variable.alignment, bytes);
  if (equals != std::string::npos) {
    std::string const values = trimmed(std::string_view{declaration}.substr(equals + 1));
    bool const is_list = values.front() == '{';
    variable.initial.resize(variable.bytes);
    std::size_t at = 0;
    for (std::string const& value :
         split_operands(is_list ? values.substr(1, values.size() - 2) : values)) {
      std::uint64_t const bits = std::stoull(value, nullptr, 0);
      if (at + bytes > variable.bytes) throw SourceError{"too many values: " + variable.name};
      std::memcpy(variable.initial.data() + at, &bits, bytes);
      at += bytes;
    }
  }
  return variable;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_{without_comments(text)} {}

  Module module() {
    Module result;
    for (skip_blanks(); at_ < text_.size(); skip_blanks()) {
      std::string const word = take_until(" \t\n(");
      if (word == ".version" || word == ".target" || word == ".address_size") {
        take_until("\n");
      } else if (word == ".entry" || word == ".func") {
        if (auto function = function_of(word == ".entry")) result.functions.push_back(*function);
      } else if (word == ".global" || word == ".const" || word == ".shared") {
        result.variables.push_back(variable_of(word.substr(1), take_until(";")));
        ++at_;
      } else if (word != ".visible" && word != ".extern" && word != ".weak") {
        fail(word);
      }
    }
    return result;
  }

 private:
  [[noreturn]] void fail(std::string const& what) const {
    throw SourceError{"line " + std::to_string(line()) + ": not understood: " + what};
  }

  int line() const {
    auto const at = text_.begin() + static_cast<std::ptrdiff_t>(std::min(at_, text_.size()));
    return line_at_mark_ + static_cast<int>(std::count(mark(), at, '\n'));
  }
  std::string::const_iterator mark() const {
    return text_.begin() + static_cast<std::ptrdiff_t>(mark_);
  }
  int advance_line() {
    line_at_mark_ = line();
    mark_ = at_;
    return line_at_mark_;
  }

  void skip_blanks() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
  }

  std::string take_until(char const* ends) {
    std::size_t const end = std::min(text_.find_first_of(ends, at_), text_.size());
    std::string taken = trimmed(std::string_view{text_}.substr(at_, end - at_));
    at_ = end;
    return taken;
  }

  std::vector<Variable> parameters() {
    skip_blanks();
    std::vector<Variable> result;
    if (at_ >= text_.size() || text_[at_] != '(') return result;
    ++at_;
    for (std::string const& one : split_operands(take_until(")"))) {
      if (one.rfind(".param", 0) != 0) fail(one);
      result.push_back(variable_of("param", one.substr(6)));
    }
    ++at_;
    return result;
  }

  /// Nothing where it is only declared.
  std::optional<Function> function_of(bool is_entry) {
    Function function{.name = {}, .is_entry = is_entry};
    if (!is_entry) function.results = parameters();
    skip_blanks();
    function.name = take_until(" \t\n(");
    function.parameters = parameters();
    std::vector<std::string> const attributes = words_of(take_until("{;"));
    for (std::size_t i = 0; i < attributes.size(); ++i) {
      if (attributes[i] == ".maxntid") {
        function.max_threads = 1;
        for (std::size_t k = i + 1; k <= i + 3 && k < attributes.size(); ++k) {
          function.max_threads *= static_cast<unsigned>(std::stoul(attributes[k]));
        }
        i += 3;
      } else if (attributes[i] == ".minnctapersm") {
        ++i;
      } else {
        fail(attributes[i]);
      }
    }
    bool const is_defined = at_ < text_.size() && text_[at_] == '{';
    ++at_;
    if (!is_defined) return std::nullopt;
    int depth = 1;
    while (depth > 0) {
      skip_blanks();
      if (at_ >= text_.size()) fail("a function without an end");
      int const begin = advance_line();
      if (text_[at_] == '{' || text_[at_] == '}') {
        bool const opens = text_[at_++] == '{';
        depth += opens ? 1 : -1;
        if (depth > 0) {
          function.body.push_back(
              {.kind = opens ? Statement::Kind::open : Statement::Kind::close, .line = begin});
        }
      } else {
        statement(begin, function.body);
      }
    }
    return function;
  }

  void statement(int begin, std::vector<Statement>& body) {
    std::size_t const word_end = text_.find_first_of(" \t\n;:", at_);
    if (word_end != std::string::npos && text_[word_end] == ':' && text_[at_] != '.') {
      body.push_back({.kind = Statement::Kind::label, .line = begin, .name = take_until(":")});
      ++at_;
      return;
    }
    std::string text = take_until(";");
    ++at_;
    Statement statement{.line = begin};
    if (text.rfind(".pragma", 0) == 0 || text.empty()) return;
    if (text.front() == '@') {
      statement.is_negated = text[1] == '!';
      std::size_t const end = text.find_first_of(" \t");
      statement.guard =
          text.substr(statement.is_negated ? 2 : 1, end - (statement.is_negated ? 2 : 1));
      text = trimmed(std::string_view{text}.substr(end));
    }
    std::size_t const end = text.find_first_of(" \t\n");
    statement.name = text.substr(0, end);
    std::string const rest = end == std::string::npos ? "" : text.substr(end);
    if (statement.name == ".reg") {
      std::string const declaration = trimmed(rest);
      std::size_t const space = declaration.find_first_of(" \t");
      statement.kind = Statement::Kind::registers;
      statement.name = declaration.substr(1, space - 1);
      statement.operands = split_operands(declaration.substr(space));
    } else if (statement.name.front() == '.') {
      statement.kind = Statement::Kind::variable;
      statement.variable = variable_of(statement.name.substr(1), rest);
    } else {
      statement.operands = split_operands(rest);
    }
    body.push_back(std::move(statement));
  }

  std::string text_;
  std::size_t at_ = 0;
  std::size_t mark_ = 0;
  int line_at_mark_ = 1;
};

}  // namespace

bool is_type(std::string_view text) {
  static constexpr std::string_view known[] = {"pred", "b8",  "b16", "b32", "b64",
                                               "u8",   "u16", "u32", "u64", "s8",
                                               "s16",  "s32", "s64", "f32", "f64"};
  return std::find(std::begin(known), std::end(known), text) != std::end(known);
}

Type type_of(std::string_view text) {
  if (!is_type(text)) throw SourceError{"an unknown type: " + std::string{text}};
  if (text == "pred") return {'p', 1};
  return {text.front(), std::stoi(std::string{text.substr(1)})};
}

Function const* Module::function(std::string_view name) const {
  auto const found = std::find_if(functions.begin(), functions.end(),
                                  [&](Function const& one) { return one.name == name; });
  return found == functions.end() ? nullptr : &*found;
}

std::vector<std::string> split_operands(std::string_view text) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size()) {
      char const c = text[i];
      if (c == '{' || c == '(' || c == '[') ++depth;
      if (c == '}' || c == ')' || c == ']') --depth;
      if (c != ',' || depth > 0) continue;
    }
    std::string part = trimmed(text.substr(begin, i - begin));
    if (!part.empty()) parts.push_back(std::move(part));
    begin = i + 1;
  }
  return parts;
}

Module parse(std::string_view text) { return Parser{text}.module(); }

}  // namespace stagecraft::ptx

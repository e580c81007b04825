#include "libsim/import/shell/shell_parameters.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "libsim/import/shell/shell_arithmetic.hpp"
#include "libsim/import/shell/shell_pattern.hpp"

namespace stagecraft {
namespace {

/// The value without the shortest or longest part at one end that matches.
std::string without_match(std::string const& value,
                          std::string const& pattern,
                          bool is_front,
                          bool is_longest) {
  for (std::size_t i = 0; i <= value.size(); ++i) {
    std::size_t const length = is_longest ? value.size() - i : i;
    std::size_t const start = is_front ? 0 : value.size() - length;
    if (!matches_pattern(std::string_view{value}.substr(start, length), pattern)) continue;
    return is_front ? value.substr(length) : value.substr(0, start);
  }
  return value;
}

/// The value with the first or each longest match replaced.
std::string with_replaced(std::string const& value,
                          std::string const& pattern,
                          std::string const& text,
                          bool is_each) {
  std::string result;
  std::size_t at = 0;
  while (at < value.size()) {
    std::size_t length = value.size() - at;
    while (length > 0 && !matches_pattern(std::string_view{value}.substr(at, length), pattern)) {
      --length;
    }
    result += length > 0 ? text : value.substr(at, 1);
    at += std::max<std::size_t>(length, 1);
    if (length > 0 && !is_each) break;
  }
  return result + value.substr(std::min(at, value.size()));
}

/// The position of a character that is not behind a backslash.
std::size_t find_plain(std::string_view text, char c, std::size_t from) {
  for (std::size_t i = from; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == c) {
      return i;
    }
  }
  return std::string_view::npos;
}

/// `START:LENGTH` of a value; a negative number counts from the end.
std::optional<std::string> part_of(std::string const& value,
                                   std::string_view range,
                                   ShellVariables const& variables) {
  std::size_t const colon = range.find(':');
  auto const size = static_cast<std::int64_t>(value.size());
  auto start = shell_arithmetic(range.substr(0, colon), variables);
  if (!start) return std::nullopt;
  if (*start < 0) *start += size;
  if (*start < 0 || *start > size) return std::string{};
  std::int64_t end = size;
  if (colon != std::string_view::npos) {
    auto const length = shell_arithmetic(range.substr(colon + 1), variables);
    if (!length) return std::nullopt;
    if (*length < 0) end = size + *length;
    if (*length >= 0 && *length < size - *start) end = *start + *length;
  }
  if (end < *start) return std::nullopt;
  return value.substr(static_cast<std::size_t>(*start), static_cast<std::size_t>(end - *start));
}

std::string in_case(std::string value, bool is_upper, bool is_each) {
  for (std::size_t i = 0; i < value.size() && (is_each || i == 0); ++i) {
    auto const c = static_cast<unsigned char>(value[i]);
    value[i] = static_cast<char>(is_upper ? std::toupper(c) : std::tolower(c));
  }
  return value;
}

/// What `${NAME...}` makes of the value of a variable by what stands behind the name: `#P`, `##P`,
/// `%P`, `%%P` and `/P/TEXT` with a pattern, `:START:LENGTH`, `,`, `,,`, `^` and `^^`.
std::optional<std::string> changed_value(std::string const& value,
                                         std::string_view operation,
                                         ShellVariables const& variables,
                                         ExpandWritten const& expand_words) {
  auto const expand = [&](std::string_view written, bool is_pattern) {
    return joined(expand_words(written, is_pattern).value_or(ShellWords{}));
  };
  constexpr std::size_t longest = std::size_t{4}
                                  << 10;  // the time for a pattern grows with its cube
  if (operation.empty() || value.size() > longest) return std::nullopt;
  char const kind = operation.front();
  bool const is_double = operation.size() > 1 && operation[1] == kind;
  std::string_view const rest = operation.substr(is_double ? 2 : 1);
  if (kind == '#' || kind == '%') {
    return without_match(value, expand(rest, true), kind == '#', is_double);
  }
  if ((kind == ',' || kind == '^') && rest.empty()) return in_case(value, kind == '^', is_double);
  if (kind == ':' && !is_double) return part_of(value, rest, variables);
  if (kind != '/' || rest.empty()) return std::nullopt;
  std::size_t const slash = find_plain(rest, '/', 1);
  std::string_view const written = rest.substr(0, slash);
  std::string const text =
      slash == std::string_view::npos ? std::string{} : expand(rest.substr(slash + 1), false);
  if (!is_double && (written.front() == '#' || written.front() == '%')) {
    bool const is_front = written.front() == '#';
    std::string const kept = without_match(value, expand(written.substr(1), true), is_front, true);
    if (kept.size() == value.size()) return value;
    return is_front ? text + kept : kept + text;
  }
  return with_replaced(value, expand(written, true), text, is_double);
}

/// The element that an index names; nullopt if the index is not known. There may be none.
std::optional<ShellWords> element_at(std::string_view index,
                                     ShellWords const& elements,
                                     ShellVariables const& variables) {
  auto number = shell_arithmetic(index, variables);
  if (!number) return std::nullopt;
  auto const size = static_cast<std::int64_t>(elements.size());
  if (*number < 0) *number += size;
  if (*number < 0 || *number >= size) return ShellWords{};
  return ShellWords{elements[static_cast<std::size_t>(*number)]};
}

bool is_open(std::string_view text) { return text.find_first_of("$`") != std::string_view::npos; }

/// `${#NAME}`: letters of a value, or elements of an array.
std::optional<BracedValue> length_of(std::string_view inner, ShellVariables const& variables) {
  bool const is_array = inner.ends_with("[@]") || inner.ends_with("[*]");
  auto const variable = variables.find(inner.substr(0, inner.size() - (is_array ? 3 : 0)));
  if (variable == variables.end()) return std::nullopt;
  ShellWords const& elements = variable->second.elements;
  std::string const value = elements.empty() ? std::string{} : elements.front().text;
  if (!is_array && is_open(value)) return std::nullopt;
  std::size_t const length = is_array ? elements.size() : value.size();
  return BracedValue{{{std::to_string(length), 0, 0}}, false};
}

/// Each element of a value with an operation, such as `${NAME%%-*}`.
std::optional<BracedValue> changed(BracedValue value,
                                   std::string_view operation,
                                   ShellVariables const& variables,
                                   ExpandWritten const& expand) {
  // `${A[@]:1:2}` counts elements.
  if (operation.starts_with(':') && value.each) return std::nullopt;
  for (ShellWord& element : value.elements) {
    if (is_open(element.text)) return std::nullopt;
    auto text = changed_value(element.text, operation, variables, expand);
    if (!text) return std::nullopt;
    element.text = std::move(*text);
  }
  return value;
}

/// A variable with its value, and the text behind its name and index. `value` is empty if the
/// variable is not set.
struct NamedValue {
  std::string name;
  std::optional<BracedValue> value;
  std::string_view rest;
};
/// Returns nullopt if the index is unknown.
std::optional<NamedValue> named_value(std::string_view inner, ShellVariables const& variables) {
  bool const is_all = inner == "@" || inner == "*";
  auto const name_end =
      is_all ? inner.begin() + 1 : std::ranges::find_if_not(inner, is_name_character);
  if (name_end == inner.begin()) return std::nullopt;
  NamedValue named;
  named.name = is_all ? "@" : std::string{inner.begin(), name_end};
  named.rest = inner.substr(static_cast<std::size_t>(name_end - inner.begin()));
  if (auto const variable = variables.find(named.name); variable != variables.end()) {
    named.value = BracedValue{variable->second.elements, named.name == "@"};
  }
  if (named.rest.starts_with('[')) {
    std::size_t const close = named.rest.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    std::string_view const index = named.rest.substr(1, close - 1);
    named.rest.remove_prefix(close + 1);
    if (!named.value) return named;
    named.value->each = index == "@";
    if (index == "@" || index == "*") return named;
    auto element = element_at(index, named.value->elements, variables);
    if (!element) return std::nullopt;
    named.value->elements = std::move(*element);
  } else if (named.value && named.value->elements.size() > 1 && named.name != "@") {
    named.value->elements.resize(1);  // $A is the first element of an array
  }
  return named;
}

}  // namespace

std::string joined(ShellWords const& words, std::string_view between) {
  std::string text;
  bool is_first = true;
  for (ShellWord const& word : words) {
    if (!std::exchange(is_first, false) && !(text.empty() && between == " ")) text += between;
    text += word.text;
  }
  return text;
}

bool has_option(ShellVariables const& variables, std::string_view name) {
  auto const options = variables.find("SHELLOPTS");
  return options != variables.end() &&
         std::ranges::any_of(options->second.elements,
                             [&](ShellWord const& option) { return option.text == name; });
}

bool matches_with_options(std::string const& text,
                          std::string const& pattern,
                          ShellVariables const& variables) {
  if (!has_option(variables, "nocasematch")) return matches_pattern(text, pattern);
  return matches_pattern(in_case(text, false, true), in_case(pattern, false, true));
}

std::optional<BracedValue> braced_value(std::string_view inner,
                                        ShellVariables const& variables,
                                        ShellVariables* settable,
                                        ExpandWritten const& expand) {
  if (inner.size() > 1 && inner.front() == '#') return length_of(inner.substr(1), variables);
  if (inner.size() > 1 && inner.front() == '!') {
    auto const variable = variables.find(inner.substr(1));
    if (variable == variables.end() || variable->second.elements.size() != 1) return std::nullopt;
    std::string const& name = variable->second.elements.front().text;
    if (name.empty() || !std::ranges::all_of(name, is_name_character)) return std::nullopt;
    std::optional<NamedValue> const named = named_value(name, variables);
    return named ? named->value : std::nullopt;
  }
  std::optional<NamedValue> named = named_value(inner, variables);
  if (!named) return std::nullopt;
  std::string_view const rest = named->rest;
  std::optional<BracedValue>& value = named->value;
  if (rest.empty()) return value;
  constexpr std::string_view defaults = "-=+?";
  bool const has_colon =
      rest.size() > 1 && rest[0] == ':' && defaults.find(rest[1]) != std::string_view::npos;
  char const kind = rest[has_colon ? 1 : 0];
  if (defaults.find(kind) == std::string_view::npos) {
    return value ? changed(std::move(*value), rest, variables, expand) : std::nullopt;
  }
  bool const counts =
      value && !value->elements.empty() && !(has_colon && joined(value->elements).empty());
  if (counts && kind != '+') return value;
  if (kind == '?') return std::nullopt;
  if (kind == '+' && !counts) return BracedValue{};
  auto fallback = expand(rest.substr(has_colon ? 2 : 1), false);
  if (!fallback) return std::nullopt;
  if (kind == '=' && settable != nullptr) {
    (*settable)[named->name] = {{{joined(*fallback), 0, 0}}};
  }
  bool const each = !fallback->empty();  // "${A:-}" is an empty word
  return BracedValue{std::move(*fallback), each};
}

}  // namespace stagecraft

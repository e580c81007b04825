#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/config/config_node.hpp"
#include "libsim/config/section_reader.hpp"
#include "libsim/import/ignore_list.hpp"

namespace stagecraft {

/// Reads the keys of a config.json and remembers which were asked for. A key is looked up under
/// every name that families have for it; JSON's null is the lack of a value.
///
/// Problems go to the node's diagnostics and a reader goes on, with 0 or an empty value, so that
/// all of them come out at once.
class HuggingfaceKeys {
 public:
  using Names = std::initializer_list<std::string_view>;

  /// Both must outlive this object.
  HuggingfaceKeys(ConfigNode const& root, IgnoreList& ignored);

  /// Whether the key has a value.
  bool has(std::string_view key) { return node(key).has_value(); }

  std::optional<std::int64_t> find_integer(Names names, IntegerRange range);
  std::optional<double> find_number(Names names, NumberRange range);
  std::optional<bool> find_boolean(Names names);
  std::optional<std::string> find_text(Names names);

  /// A number below a key that holds a map.
  std::optional<double> find_nested_number(std::string_view key,
                                           std::string_view inner,
                                           NumberRange range);

  /// A number that must be there. `remedy` is what the message offers besides the key.
  std::int64_t integer(Names names, IntegerRange range, std::string_view remedy = {});

  /// Values that transformers' class of the family has a default for; one that is taken is noted.
  std::int64_t integer_or(Names names, IntegerRange range, std::int64_t fallback);
  double number_or(Names names, NumberRange range, double fallback);
  bool boolean_or(Names names, bool fallback);
  std::string text_or(Names names, std::string_view fallback);

  /// The value of `key` is not representable: a problem, unless --ignore names the key, when
  /// `consequence` is noted instead. \return whether it is ignored
  bool refuse(std::string_view key, std::string const& accepted, std::string const& consequence);

  /// A boolean that must not be true.
  void refuse_if_true(std::string_view key, std::string const& consequence);

  /// Keys that change neither memory nor time nor the number of parameters.
  void without_effect(Names names);

  /// Text for the user, beside the result.
  void note(std::string text) { notes_.push_back(std::move(text)); }

  /// Reports keys that nobody asked for, and puts the notes about the others together.
  std::vector<std::string> finish();

 private:
  /// The first of `names` that has a value. Where another has one too, they must agree.
  std::optional<ConfigNode> first_of(Names names);
  std::optional<ConfigNode> node(std::string_view key);
  void assume(Names names, std::string const& value);

  ConfigNode const& root_;
  IgnoreList& ignored_;
  std::vector<std::string> known_;
  std::vector<std::string> idle_;     ///< keys without effect that the file has
  std::vector<std::string> assumed_;  ///< `key value`, left out by the file
  std::vector<std::string> notes_;
};

}  // namespace stagecraft

#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/config/config_node.hpp"
#include "libsim/config/section_reader.hpp"
#include "libsim/import/omissions.hpp"

namespace stagecraft {

/// Reads the keys of a config.json and remembers which were asked for. A key is looked up under
/// every name that families have for it; JSON's null means that there is no value.
///
/// Problems go to the node's diagnostics and reading continues with 0 or an empty value, so that
/// all of them are reported at once.
class HuggingfaceKeys {
 public:
  using Names = std::initializer_list<std::string_view>;

  /// Both must outlive this object.
  HuggingfaceKeys(ConfigNode const& root, Omissions& omissions);

  /// Whether the key has a value.
  bool has(std::string_view key) { return node(key).has_value(); }

  std::optional<std::int64_t> find_integer(Names names, IntegerRange range);
  std::optional<double> find_number(Names names, NumberRange range);
  std::optional<bool> find_boolean(Names names);
  std::optional<std::string> find_text(Names names);

  /// The words of a list; empty if there is none.
  std::vector<std::string> find_texts(std::string_view key);

  /// The first of `names` in the map of a key; empty if there is none.
  std::string nested_text(std::string_view key, Names names);
  /// The number to which a path of keys leads through maps.
  std::optional<double> find_nested_number(Names path, NumberRange range);

  /// A number that is required. `remedy` is what the message offers as an alternative to the key.
  std::int64_t integer(Names names, IntegerRange range, std::string_view remedy = {});

  /// Values for which the family's class in transformers has a default; if it is used, that is
  /// noted.
  double number_or(Names names, NumberRange range, double fallback);
  bool boolean_or(Names names, bool fallback);
  std::string text_or(Names names, std::string_view fallback);

  /// Leaves out `key`, whose value is not representable, and what `consequence` says is modelled;
  /// if omissions are strict, reports it unless --ignore names it. \return whether it is left out
  bool refuse(std::string_view key, std::string const& accepted, std::string const& consequence);

  /// Whether --ignore names the key, which is modelled otherwise; then notes `consequence`.
  bool leaves_out(std::string_view key, std::string const& consequence);

  /// Notes what is lost without a part of the family, which no key names; if omissions are strict,
  /// reports it unless --ignore has its `name`.
  void approximate(std::string const& name, std::string const& part, std::string const& lost);

  /// The same as refuse() of a boolean that is true.
  void refuse_if_true(std::string_view key, std::string const& consequence);

  /// Marks keys that change neither memory nor time nor the number of parameters.
  void without_effect(Names names);

  /// Notes a key that changes the trained model, and that a ModelConfig cannot hold.
  void lose(std::string name) { lost_.push_back(std::move(name)); }

  /// Adds a text that the user sees beside the result.
  void note(std::string text) { notes_.push_back(std::move(text)); }

  /// Reports a boolean that is true, as it makes the model one of another kind, unless --ignore
  /// names it.
  void refuse_kind_if_true(std::string_view key, std::string const& consequence);

  /// Leaves out or reports unknown keys, and returns the notes about the others.
  std::vector<std::string> finish();

 private:
  /// The first of `names` that has a value. If another has one too, they must agree.
  std::optional<ConfigNode> first_of(Names names);
  std::optional<ConfigNode> node(std::string_view key);
  void leave_out(std::string_view key,
                 std::string const& value,
                 std::string consequence,
                 bool is_asked);
  void leave_out_unknown(ConfigNode const& entry);
  void assume(Names names, std::string const& value);

  ConfigNode const& root_;
  Omissions& omissions_;
  std::vector<std::string> known_;
  std::vector<std::string> idle_;     ///< keys without effect that the file has
  std::vector<std::string> lost_;     ///< those that change what is trained
  std::vector<std::string> assumed_;  ///< `key value` of defaults that were used
  std::vector<std::string> notes_;
};

}  // namespace stagecraft

#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/units/enum_names.hpp"

namespace stagecraft {

/// How much a flag or key that an import leaves out changes memory and time.
enum class OmittedEffect : std::uint8_t {
  none,
  small,  ///< below 1 % of time and of bytes
  large,  ///< more, or perhaps more
  unknown,
};

template <>
struct EnumNames<OmittedEffect> {
  static constexpr std::array<std::pair<OmittedEffect, std::string_view>, 4> all{
      {{OmittedEffect::none, "none"},
       {OmittedEffect::small, "small"},
       {OmittedEffect::large, "large"},
       {OmittedEffect::unknown, "unknown"}}};
};

/// A flag or key that an import leaves out.
struct Omission {
  std::string name;
  std::string value{};  ///< as it was written; empty if it has none
  OmittedEffect effect = OmittedEffect::none;
  std::string direction{};    ///< how it changes the run, such as "less time"; empty if it does not
  std::string consequence{};  ///< what is modelled, in words; may be empty
  bool is_asked = false;      ///< --ignore names it
};

/// What a message calls `'4'` or `the text '4'`, without its quotes.
std::string unquoted(std::string const& found);

/// One line for the user. Pre: it has an effect.
std::string text_of(Omission const& omission);

/// Whether an import refuses what changes a run and is not modelled, or leaves it out.
enum class Strictness : std::uint8_t { lenient, strict };

/// What an import leaves out, and what it may leave out although it matters, as `--ignore KEY,KEY`
/// says. Names are those of config.json's keys or of Megatron's flags, with or without leading
/// dashes.
class Omissions {
 public:
  explicit Omissions(std::vector<std::string> const& ignored, Strictness strictness = {});

  bool is_strict() const { return strictness_ == Strictness::strict; }

  /// Whether --ignore names it; the name then counts as used.
  bool ignores(std::string_view name);
  /// Names of --ignore that were never looked up, sorted; they are probably misspelt.
  std::vector<std::string> unused() const;

  void add(Omission omission) { list_.push_back(std::move(omission)); }
  std::vector<Omission> const& list() const { return list_; }

 private:
  Strictness strictness_;
  std::set<std::string, std::less<>> names_;
  std::set<std::string, std::less<>> used_;
  std::vector<Omission> list_;
};

}  // namespace stagecraft

#include "libsim/import/megatron/megatron_doubts.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>

#include "libsim/config/did_you_mean.hpp"
#include "libsim/import/megatron/megatron_flag_table.hpp"

namespace stagecraft {
namespace {

std::string_view bare_flag(std::string_view flag) {
  return flag.starts_with("--") ? flag.substr(2) : flag;
}

/// Whether a flag belongs to the launcher, or changes neither memory nor time.
bool is_idle(std::string_view flag) {
  constexpr std::array<std::string_view, 7> launcher{"nproc", "nnodes",   "node",     "master",
                                                     "rdzv",  "num_gpus", "num_nodes"};
  std::string_view const name = bare_flag(flag);
  if (MegatronFlag const* const known = find_flag(name)) {
    return known->effect == MegatronFlag::Effect::none;
  }
  return std::ranges::any_of(launcher, [&](auto const start) { return name.starts_with(start); });
}

std::string line_of(ScriptDoubt const& doubt) { return "line " + std::to_string(doubt.place.line); }

/// The options that decide a doubt; empty if no variable does.
std::string deciding_options(ScriptDoubt const& doubt) {
  std::vector<std::string> options;
  for (std::string const& name : doubt.names) options.push_back("--variable " + name + "=VALUE");
  return joined(options);
}

/// Whether --ignore names all flags of a doubt, or a variable that decides it.
bool is_ignored(std::vector<std::string> const& flags,
                ScriptDoubt const& doubt,
                Omissions& omissions) {
  bool all = true;
  for (std::string const& flag : flags) {
    bool const is_variable = flag.starts_with('$');
    if (!omissions.ignores(is_variable ? std::string_view{flag}.substr(1) : flag)) all = false;
  }
  for (std::string const& name : doubt.names) all = omissions.ignores(name) || all;
  return all;
}

}  // namespace

void leave_out_doubts(std::vector<ScriptDoubt> const& doubts,
                      std::string const& origin,
                      Omissions& omissions,
                      Diagnostics& diagnostics,
                      std::vector<std::string>& notes) {
  auto const file = std::make_shared<std::string const>(origin);
  for (ScriptDoubt const& doubt : doubts) {
    std::vector<std::string> flags;
    for (std::string const& flag : doubt.flags) {
      if (!is_idle(flag)) flags.push_back(printable(flag));
    }
    if (flags.empty()) {
      if (!doubt.note.empty()) notes.push_back(line_of(doubt) + ": " + doubt.note);
      continue;
    }
    std::string const options = deciding_options(doubt);
    std::string const concerned = "may be missing or have another value: " + joined(flags);
    bool const is_asked = is_ignored(flags, doubt, omissions);
    if (!is_asked && omissions.is_strict()) {
      std::string list;
      for (std::string const& flag : flags) {
        std::string_view const written = flag;
        list += list.empty() ? "" : ",";
        list += written.starts_with('$') ? written.substr(1) : bare_flag(written);
      }
      diagnostics.add({Place{file, doubt.place.line, doubt.place.column}, doubt.what,
                       "what the script does not decide; " + concerned,
                       (options.empty() ? "" : options + ", or ") + "--ignore " + list});
      continue;
    }
    omissions.add({.name = doubt.what,
                   .value = "(" + line_of(doubt) + ")",
                   .effect = OmittedEffect::unknown,
                   .consequence = "the script does not decide it; " + concerned +
                                  (options.empty() ? "" : " (" + options + " decides)"),
                   .is_asked = is_asked});
  }
}

std::vector<Problem> with_doubts(std::vector<Problem> problems,
                                 std::vector<ScriptDoubt> const& doubts) {
  for (Problem& problem : problems) {
    std::string_view const flag = std::string_view{problem.key}.substr(0, problem.key.find(' '));
    for (ScriptDoubt const& doubt : doubts) {
      if (doubt.names.empty() || !doubt.flags.contains(std::string{flag})) continue;
      problem.accepted +=
          "; " + line_of(doubt) + " (" + doubt.what + ") decides it: " + deciding_options(doubt);
      break;
    }
  }
  return problems;
}

}  // namespace stagecraft

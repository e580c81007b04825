#include "libsim/import/shell/shell_doubts.hpp"

#include <algorithm>
#include <utility>

namespace stagecraft {

std::size_t ShellDoubts::add(ScriptDoubt doubt) {
  auto const equal = std::ranges::find_if(list_, [&](ScriptDoubt const& known) {
    return known.place.line == doubt.place.line && known.place.column == doubt.place.column &&
           known.what == doubt.what;
  });
  if (equal != list_.end()) return static_cast<std::size_t>(equal - list_.begin());
  list_.push_back(std::move(doubt));
  return list_.size() - 1;
}

ShellEffects ShellDoubts::touch(std::size_t doubt,
                                ShellCommands const& commands,
                                ShellVariables const& variables,
                                ShellFunctions const& functions) {
  ShellEffects effects = effects_of(commands, variables, functions);
  for (auto& [name, settings] : effects.settings) {
    std::set<std::string> now;
    add_flags_of(variables, name, now);
    Taint& taint = taints_[name][doubt];
    for (std::string const& flag : settings.inherited) {
      if (!now.contains(flag) && !name.empty()) taint.flags.insert(flag);
    }
    // What the variable has now may be lost.
    for (std::string const& flag : now) {
      bool const stays = settings.inherited.contains(flag) || settings.written.contains(flag);
      if (settings.replaces && !stays) taint.flags.insert(flag);
    }
    taint.flags.merge(settings.written);
    taint.is_open = taint.is_open || settings.is_open;
  }
  return effects;
}

ShellDoubts::Taints ShellDoubts::taints_of(std::vector<std::string> const& written) const {
  Taints all;
  for (ShellReference const& reference : references_in(written)) {
    auto const tainted = taints_.find(reference.name);
    if (tainted == taints_.end()) continue;
    for (auto const& [doubt, taint] : tainted->second) {
      Taint& result = all[doubt];
      result.flags.insert(taint.flags.begin(), taint.flags.end());
      if (!taint.flags.empty()) continue;
      if (!reference.flag.empty()) {
        result.flags.insert(reference.flag);
      } else {
        result.is_open = result.is_open || taint.is_open;
        result.name = reference.name;
      }
    }
  }
  return all;
}

void ShellDoubts::settle(std::string const& name,
                         std::vector<std::string> const& written,
                         bool appends) {
  Taints taints = taints_of(written);
  if (!appends) taints_.erase(name);
  for (auto& [doubt, taint] : taints) {
    Taint& known = taints_[name][doubt];
    known.flags.merge(taint.flags);
    known.is_open = known.is_open || taint.is_open;
  }
}

std::map<std::size_t, std::set<std::string>> ShellDoubts::reaching(
    std::vector<std::string> const& written) const {
  std::map<std::size_t, std::set<std::string>> flags;
  for (auto const& [doubt, taint] : taints_of(written)) {
    flags[doubt] = taint.flags;
    if (taint.flags.empty() && taint.is_open) flags[doubt].insert("$" + taint.name);
  }
  return flags;
}

bool ShellDoubts::may_have_flags(std::string_view name) const {
  auto const tainted = taints_.find(name);
  return tainted != taints_.end() && std::ranges::any_of(tainted->second, [](auto const& entry) {
           return !entry.second.flags.empty();
         });
}

std::map<std::size_t, std::set<std::string>> ShellDoubts::reaching_other_commands() const {
  std::map<std::size_t, std::set<std::string>> flags;
  auto const other = taints_.find("");
  if (other == taints_.end()) return flags;
  for (auto const& [doubt, taint] : other->second) flags[doubt] = taint.flags;
  return flags;
}

void ShellDoubts::leave_subshell(Values before) {
  Values const inside = std::exchange(taints_, std::move(before));
  if (auto const other = inside.find(""); other != inside.end()) taints_[""] = other->second;
}

}  // namespace stagecraft

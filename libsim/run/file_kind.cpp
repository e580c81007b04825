#include "libsim/run/file_kind.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "libsim/run/foreign_format.hpp"

namespace stagecraft {
namespace {

struct KindFacts {
  FileKind kind;
  std::vector<std::string_view> keys;  ///< a file with all of them is of this kind
  char const* name;
  char const* use;  ///< what takes such a file
};

std::vector<KindFacts> const& kinds() {
  char const* const for_systems = "stagecraft system takes it, or `system` of a run file names it";
  char const* const for_stacks =
      "stagecraft software takes it, or `software` of a run file names it";
  static std::vector<KindFacts> const facts{
      {FileKind::run, {"model", "system"}, "a run file", "stagecraft simulate takes it"},
      {FileKind::model,
       {"layers", "hidden"},
       "a model file",
       "stagecraft plan takes it, or `model` of a run file names it"},
      {FileKind::system, {"accelerator", "node"}, "a system file", for_systems},
      {FileKind::system, {"base", "accelerator"}, "a system file", for_systems},
      {FileKind::system, {"base", "node"}, "a system file", for_systems},
      {FileKind::system, {"base", "network"}, "a system file", for_systems},
      {FileKind::system, {"base", "calibration"}, "a system file", for_systems},
      {FileKind::software, {"name", "host"}, "a software file", for_stacks},
      {FileKind::software, {"base", "host"}, "a software file", for_stacks},
      {FileKind::software, {"base", "kernels"}, "a software file", for_stacks},
      {FileKind::software, {"base", "replicas"}, "a software file", for_stacks},
      {FileKind::sweep, {"base", "values"}, "a sweep file", "stagecraft sweep takes it"},
      {FileKind::sweep, {"base", "cases"}, "a sweep file", "stagecraft sweep takes it"}};
  return facts;
}

bool is_kind(YamlNode const& root, KindFacts const& facts) {
  return std::all_of(facts.keys.begin(), facts.keys.end(),
                     [&](std::string_view key) { return root.find(key) != nullptr; });
}

/// A file of the wanted kind in the wrong shape: a model below `model:`, or parts of a system that
/// name no base for the rest.
std::optional<Problem> of_shape(YamlNode const& root,
                                FileKind wanted,
                                std::string const& referrer) {
  YamlNode const* const model = root.find("model");
  if (wanted == FileKind::model && model != nullptr && model->kind == YamlNode::Kind::map) {
    return Problem{model->place, referrer, "a section 'model'",
                   "a model file, whose keys (layers, hidden, ...) are in no section", true};
  }
  if (wanted != FileKind::system || root.find("base") != nullptr) return std::nullopt;
  std::string missing;
  std::size_t there = 0;
  for (char const* const section : {"accelerator", "node", "network", "calibration"}) {
    if (root.find(section) != nullptr) {
      ++there;
    } else {
      missing += (missing.empty() ? "" : ", ") + std::string{section};
    }
  }
  if (there == 0 || missing.empty()) return std::nullopt;
  return Problem{root.place, referrer, "no base, and no section " + missing,
                 "a system file: `base: dgx-h100` names the system that it changes; without a base "
                 "it needs all sections (stagecraft system --keys)",
                 true};
}

}  // namespace

std::optional<Problem> wrong_kind(YamlNode const& root,
                                  FileKind wanted,
                                  std::string const& referrer) {
  if (root.kind != YamlNode::Kind::map) return std::nullopt;
  KindFacts const* found = nullptr;
  KindFacts const* asked = nullptr;
  for (KindFacts const& facts : kinds()) {
    if (facts.kind == wanted) {
      if (is_kind(root, facts)) return std::nullopt;
      asked = &facts;
    } else if (found == nullptr && is_kind(root, facts)) {
      found = &facts;
    }
  }
  if (found == nullptr) {
    if (auto const format = foreign_format(root, true)) {
      return Problem{root.place, referrer, text_of(*format), asked->name, true};
    }
    return of_shape(root, wanted, referrer);
  }
  return Problem{root.place, referrer, std::string{found->name} + " (" + found->use + ")",
                 asked->name, true};
}

}  // namespace stagecraft

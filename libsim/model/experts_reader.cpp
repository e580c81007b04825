#include <string>

#include "libsim/config/section_reader.hpp"
#include "libsim/config/section_writer.hpp"
#include "libsim/model/model_keys.hpp"

namespace stagecraft {
namespace {

/// How many experts a token chooses among. Nothing is reported that depends on an unsound key.
void check_choice(ExpertsConfig const& experts, ConfigNode const& section) {
  RouterConfig const& router = experts.router;
  ConfigNode const count = section.child("count");
  ConfigNode const per_token = section.child("per_token");
  ConfigNode const groups = section.child("router").child("groups");
  ConfigNode const kept = section.child("router").child("groups_per_token");
  if (!count.is_sound() || !groups.is_sound() || !kept.is_sound()) return;
  if (experts.count % router.groups != 0) {
    groups.report("a divisor of " + with_value(count, experts.count));
    return;
  }
  if (router.groups_per_token > router.groups) {
    kept.report("at most " + with_value(groups, router.groups));
    return;
  }
  if (!per_token.is_sound()) return;
  std::int64_t const among = experts.count / router.groups * router.groups_per_token;
  if (experts.per_token <= among) return;
  per_token.report(router.groups == 1
                       ? "at most " + with_value(count, experts.count)
                       : "at most the " + std::to_string(among) + " experts of " + kept.key() +
                             " (" + std::to_string(router.groups_per_token) + ") groups");
}

}  // namespace

void read_field(ConfigNode const& node, std::optional<ExpertsConfig>& experts) {
  if (node.reads("none")) {
    experts.reset();
    return;
  }
  if (!node.is_map()) {
    node.report("none, or a map with the keys count, per_token and ffn_hidden");
    return;
  }
  Need const need = experts ? Need::optional : Need::required;
  if (!experts) experts.emplace();
  SectionReader reader{node};
  visit_keys(reader, *experts, need);
  reader.finish();
  check_choice(*experts, node);
  ConfigNode const every = node.child("every");
  ConfigNode const offset = node.child("offset");
  if (every.is_sound() && offset.is_sound() && experts->offset >= experts->every) {
    offset.report("less than " + with_value(every, experts->every));
  }
  ConfigNode const gate = node.child("shared_gate");
  if (gate.is_sound() && experts->shared_gate && experts->shared_ffn_hidden == 0) {
    gate.report("false, as " + node.child("shared_ffn_hidden").key() + " is 0");
  }
}

nlohmann::ordered_json to_json(std::optional<ExpertsConfig> const& experts) {
  if (!experts) return "none";
  SectionWriter writer;
  visit_keys(writer, *experts);
  return writer.map();
}

}  // namespace stagecraft

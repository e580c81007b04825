#include "libsim/import/shell/shell_launch_words.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "libsim/import/shell/shell_expansion.hpp"

namespace stagecraft {

bool has_layers(ShellWords const& words) {
  return std::any_of(words.begin(), words.end(), [](ShellWord const& word) {
    return word.text == "--num-layers" || word.text == "--encoder-num-layers" ||
           word.text.rfind("--num-layers=", 0) == 0;
  });
}

StartedProgram started_program(ShellWords const& words) {
  constexpr std::array<std::string_view, 3> tasks{"sft", "pt", "rlhf"};
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string_view const text = words[i].text;
    bool const has_task =
        i + 1 < words.size() && std::ranges::find(tasks, words[i + 1].text) != tasks.end();
    if (text == "megatron" && has_task) return {"ms-swift", i + 2};
    if (text.starts_with("verl.trainer.main_")) return {"verl", i + 1};
  }
  return {};
}

ShellWords cut_again(ShellWords const& words, ShellVariables const& variables, bool cuts_flags) {
  ShellWords result;
  for (ShellWord const& word : words) {
    if (word.text.find("--num-layers") == std::string::npos ||
        word.text.find_first_of(" \t\n") == std::string::npos ||
        (!cuts_flags && word.text.starts_with("--"))) {
      result.push_back(word);
      continue;
    }
    std::vector<std::string> ignored;
    for (ShellToken const& token : shell_tokens(word.text, ignored)) {
      if (token.kind != ShellToken::Kind::word) continue;
      for (ShellWord& inner : expand(token.word, variables)) {
        result.push_back({std::move(inner.text), word.line, word.column});
      }
    }
  }
  return result;
}

}  // namespace stagecraft

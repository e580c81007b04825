#include "libsim/import/shell/shell_launch_words.hpp"

#include <algorithm>
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

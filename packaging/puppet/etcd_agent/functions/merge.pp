# @summary Merges two hashes key by key. Hashes in both are merged too; otherwise the second one wins.
#
# @param below the values that are replaced
# @param above the values that win
# @return [Hash] the merged hash
function etcd_agent::merge(Hash $below, Hash $above) >> Hash {
  $above.reduce($below) |$merged, $pair| {
    [$key, $value] = $pair
    if $merged[$key] =~ Hash and $value =~ Hash {
      $merged + { $key => etcd_agent::merge($merged[$key], $value) }
    } else {
      $merged + { $key => $value }
    }
  }
}

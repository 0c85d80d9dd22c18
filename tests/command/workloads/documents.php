<?php
// Texts of many bytes, documents, patterns, sorted arrays and a process of its own, by extensions that are opened while
// it runs. Argument: rounds.
echo 'opcache ', (opcache_get_status(false)['opcache_enabled'] ?? false) ? 'compiles' : 'is off', "\n";

function one(int $round): string {
    $document = new DOMDocument();
    $root = $document->appendChild($document->createElement('root'));
    for ($i = 1; $i <= 400; ++$i) {
        $child = $root->appendChild($document->createElement('item', str_repeat("ä$i ", $i * $round % 30)));
        $child->setAttribute('number', (string)($i * $round % 101));
    }
    $read = simplexml_load_string($document->saveXML());
    $found = array_map(fn($node) => mb_strtoupper((string)$node), $read->xpath('//item[@number > 50]'));
    usort($found, fn($a, $b) => mb_strlen($a) <=> mb_strlen($b) ?: strcmp($a, $b));
    $text = mb_convert_encoding(implode('|', $found), 'UTF-16', 'UTF-8');
    $words = preg_split('/(?<=\d)\s+/u', mb_convert_encoding($text, 'UTF-8', 'UTF-16'));
    return md5(json_encode(array_count_values($words)) . serialize($found));
}

$results = [];
for ($round = 1; $round <= (int)$argv[1]; ++$round) $results[] = one($round);
echo md5(implode("\n", $results)), "\n", shell_exec('echo another process');
$reader = XMLReader::XML('<list>' . str_repeat('<one of="list">text</one>', 5000) . '</list>');
for ($texts = 0; $reader->read();) $texts += $reader->nodeType === XMLReader::TEXT;
echo $texts, "\n";
exit(9);

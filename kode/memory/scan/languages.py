# ruff: noqa: E501  the rows of a table of roots are read whole
"""Orders to a model in languages other than English: which words, in which company.

For each language three groups of word roots. An order to forget is a verb with what was said
before and a word for instructions nearby; an order to conceal is a negation with a verb of telling
and the user nearby. Word order is free, so endings and particles do not matter.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from kode.memory.scan.characters import folded
from kode.memory.scan.sentences import KEY_CHARS, Index, Sentence


@dataclass(frozen=True, slots=True)
class Language:
    ignore: str
    """Roots of "ignore", "forget", "disregard", divided by `|`."""
    earlier: str
    """Roots of "previous", "all", "above", "your", "system"."""
    rules: str
    """Roots of "instructions", "rules", "prompt"."""
    conceal: str
    """Roots of "do not tell", "without informing", "secretly", negation included."""
    user: str
    """Roots of "user", "operator", "owner"."""


LANGUAGES: dict[str, Language] = {
    "zh": Language(
        "忽略|无视|忘记|忘掉|无需遵守|不要遵守|不要理会|别管|不用管|抛开|绕过|無視|忽視|忘記|不要遵循|不再遵守|不必遵守|抛弃|丢弃|取消|作废|推翻|覆盖|别理|別管|不要管|废除|停止遵守|违反",
        "之前|以前|先前|上面|以上|前面|所有|一切|全部|原有|原来|原始|此前|你的|系统|開發|开发者|系統|任何|上述|这些|安全|既有|系统提示|旧的|旧|原先|前文|上文|早先|上方",
        "指令|指示|规则|規則|提示|说明|命令|要求|约束|限制|设定|對話|对话|规定|准则|內容|内容|提示词|系统提示|政策|指南",
        "不要告诉|不要让.{0,8}知道|别让.{0,8}知道|别告诉|不要告知|不告诉|不要通知|瞒着|不知情|背着|不要提及|不要透露|不得告知|不要向|不要告訴|偷偷|悄悄|保密|隐瞒|不要征求|无需征求|不用征求|不必征求|无需询问|不必询问|不用询问|不用问|不要问|不要詢問|无需确认|不需确认|别问|别让|对.{0,6}保密|别向|不要对|未经|不让|隐藏|隱瞞|删掉痕迹|別告訴|別讓|不要讓|瞞著|隱藏|不告訴|別向|別通知|不可告知|不要把.{0,12}告诉|别把.{0,12}告诉|不要将.{0,12}告|不要跟|别跟|别对",
        "用户|使用者|用戶|主人|任何人|操作员|管理员|开发者|别人|他人|客户|人类|执行|运行|发送|上传|推送|直接|提交|部署|审核|同意|團隊|团队",
    ),
    "ja": Language(
        "無視|忘れ|破棄|従わない|従うな|従わず|無効|忘却|捨て|取り消|上書き|守らな|従う必要はない|従わなく|違反|無視し",
        "これまで|以前|前の|上記|すべて|全て|先の|今まで|システム|あなたの|従来|元の|前述|開発者|直前|あらゆる|全部|ここまで|安全|元々|最初|既存|上の|先程|さっき",
        "指示|命令|ルール|規則|プロンプト|指令|設定|制約|制限|会話|ガイドライン|方針|ポリシー",
        "伝えない|言わない|知らせない|報告しない|知らせず|伝えず|言わず|教えない|内緒|秘密に|隠し|黙って|こっそり|話さない|通知しない|通知せず|明かさない|報告せず|告げ|確認なし|確認せず|許可なく|許可なし|承認なし|承認を得ず|無断で|断りなく|聞かずに|尋ねず|報告は不要|言うな|伝えるな|知られない|気づかれ|バレない|隠せ|隠す",
        "ユーザー|ユーザ|利用者|使用者|人間|オペレーター|誰に|所有者|管理者|開発者|実行|送信|プッシュ|お客|オーナー|削除|コミット|デプロイ|チーム|レビュ|誰",
    ),
    "ko": Language(
        "무시|잊어|잊으|따르지|폐기|무효|우회|잊고|따를 필요|취소|버려|버리|거부",
        "이전|지금까지|위의|모든|앞의|앞선|기존|시스템|너의|당신의|원래|상기|개발자|전부|안전|지난|종전|위에|앞|먼저|전의|전에",
        "지시|명령|규칙|프롬프트|지침|설정|제한|안내|대화|가이드라인|제약|정책|가이드",
        "알리지|말하지|알려주지|보고하지|통보하지|몰래|비밀로|숨기|숨겨|언급하지|모르게|알림 없이|드러내지|전하지|묻지 말|묻지 않|확인 없이|허락 없이|승인 없이|동의 없이|비밀|말하지 마|알리지 마|감추|들키지|밝히지",
        "사용자|유저|인간|운영자|아무에게|소유자|관리자|개발자|누구에게|실행|전송|푸시|고객|주인|삭제|커밋|배포|팀|업로드",
    ),
    "ru": Language(
        "игнорир|забуд|забыть|не следуй|не обращай внимания|не выполняй|отбрось|не соблюдай|пренебрег|не подчиняйся|проигнорир|переопредел|отмени|отменя|забыв|не учитыв|не слушай|нарушай|нарушь|обходи|обойди|отказ|больше не следуй|не придержив|пропусти",
        "предыдущ|прежн|прошл|вышеуказан|все |всё |всех|ранее|выше|твои|ваши|системн|данные|разработчик|первоначальн|исходн|любые|прочие|предшеств|безопасн|старые|старых|свои|всем|всё|систем",
        "инструкц|правил|указани|команд|промпт|подсказк|предписани|ограничен|директив|распоряжен|политик|запрет|настро|промт",
        "не говори|не сообщай|не рассказывай|не упоминай|не уведомляй|тайно|скрой|скрыва|втайне|незаметно|без ведома|без разрешения|без согласия|не раскрывай|не информир|не предупрежда|в секрете|молча|не сообщать|не говорить|не ставь в известность|утаи|без подтверждения|не спрашива|без спроса|без вопрос|не показыва|никогда не говори|никому не говори|умолчи|промолчи|не раскрыв|прячь|спрячь|держи в тайне|без уведомлен|без одобрения|по секрету|чтобы .{0,20}не узнал|чтобы .{0,20}не заметил",
        "пользовател|человек|оператор|никому|владельц|хозяин|администратор|разработчик|выполн|отправ|запуст|юзер|заказчик|людям|клиент|удал|пуш|коллег|никто|люд|ревьюер",
    ),
    "uk": Language(
        "ігнору|забудь|не виконуй|не дотримуйся|знехту|не зважай|відкинь|проігнор|не слідуй|скасуй|порушуй|порушуй|відмін|забудьте|ігноруйте|не слухай|обійди|нехтуй|оминай",
        "попередн|усі |всі |минул|вище|раніше|твої|ваші|системн|колишн|розробник|початков|будь-як|безпек|усіх|всіх|всі|свої|старі",
        "інструкц|правил|вказівк|команд|промпт|обмежен|директив|настанов|підказк|розпоряджен",
        "не кажи|не повідомляй|не розповідай|не згадуй|таємно|приховай|потай|без відома|без дозволу|не говори|не сповіщай|без згоди|мовчки|непомітно|не розкривай|не інформуй|не попереджай|у секреті|в таємниці|не питай|без запит|без підтвердж|не показуй|ніколи не кажи|сховай|тримай у таємниці|приховуй|не кажіть",
        "користувач|людин|оператор|нікому|власник|адміністратор|розробник|викон|надішл|запуст|клієнт|замовник|видал|ніхто",
    ),
    "bg-sr": Language(
        "игнорирай|пренебрегни|забрави|не спазвай|игнориши|занемари|заборави|не следвай",
        "предишн|всички|предходн|горн|твоите|систем|претходн|све |ранијe|раниј",
        "инструкци|правил|указани|команд|упутств|упутств|ограничен|промпт",
        "не казвай|не съобщавай|не споменавай|тайно|скрий|немој рећи|не реци|не говори|без знанието|без разрешение",
        "потребител|корисник|човек|никого|оператор|никоме|собственик",
    ),
    "de": Language(
        "ignorier|missacht|vergiss|vergesse|beachte nicht|befolge nicht|setze? dich uber|verwirf|verwerfe|ausser acht|hinfallig|nicht beachten|nicht mehr befolgen|befolge keine|hebe? .{0,30}auf|brich|umgeh|lass .{0,30}ausser acht|verletze|halte dich nicht|gilt nicht|gelten nicht|kummere dich nicht|streiche|losch|setze .{0,40}ausser kraft|folge nicht|ignoriere|missachte",
        "vorher|bisherig|vorhergehend|obig|alle |allen |fruher|vorangegang|vorig|deine|system|ursprunglich|samtlich|entwickler|jegliche|bestehend|sicherheits|bisher|vorstehend|deinen|deiner|des system|oben|zuvor|eigene|gesamte|gegeben",
        "gesagt|mitgeteilt|anweisung|systemanweisung|systemprompt|systemregel|systemvorgabe|sicherheitsregel|regel|instruktion|vorgabe|prompt|befehl|richtlinie|einschrankung|weisung|vorschrift|anordnung|beschrankung",
        "nicht mit|nichts mit|sag .{0,30}nicht|sage .{0,30}nicht|erzahl.{0,30}nicht|nichts davon|verrate|verschweig|verheimlich|heimlich|ohne .{0,30}zu fragen|ohne .{0,30}zu informieren|ohne wissen|ohne .{0,20}zustimmung|ohne .{0,20}genehmigung|ohne .{0,20}erlaubnis|nicht erwahn|erwahne .{0,40}nicht|informiere .{0,30}nicht|melde .{0,40}nicht|geheim|teile .{0,30}nicht|verbirg|verberge|ohne .{0,30}wissen|ohne ruckfrage|stillschweigend|niemandem|frag.{0,20}nicht|ohne .{0,20}nachzufragen|ohne nachfrage|ohne bestatigung|ohne freigabe|ohne erlaubnis|ohne es .{0,20}zu sagen|sag(?:e)? niemand|sag(?:e)? nichts|behalte .{0,30}fur dich|erwahn.{0,30}nicht|unbemerkt|hinter dem rucken|lass .{0,40}nicht wissen|luge|tausche vor|nicht verraten|zeig.{0,30}nicht",
        "nutzer|benutzer|anwender|mensch|betreiber|niemand|besitzer|eigentumer|bediener|admin|entwickler|fuhre|sende|ausfuhr|kunde|auftraggeber|losch|push|team|davon|chef|kolleg|andere",
    ),
    "fr": Language(
        "ignore|oublie|neglige|ne (?:tien|tenez).{0,12}compte|passe outre|fai.{0,5}abstraction|ne respecte|ne sui|outrepasse|desobei|ignorer|oublier|n'obei|ne suis pas|ne pas suivre|annule|contourne|enfrein|viole|cesse de|arrete de|laisse tomber|meprise|fais fi|n'obeis",
        "precedent|anterieur|ci-dessus|toute|tous|prealable|tes |vos |systeme|initial|originel|d'origine|au-dessus|developpeur|existant|avant|prec|securite|recues|donnees|tes|vos|du systeme|de l'utilisateur|ci-avant|passees|ancien|aux |les regles",
        "instruction|consigne|regle|directive|ordre|prompt|invite|commande|contrainte|restriction|limitation|indication|protection",
        "ne dis |ne dites|n'informe|ne mentionne|ne parle|ne revele|sans demander|sans prevenir|sans informer|sans le dire|en secret|secretement|ne previen|ne signale|a l'insu|discretement|sans l'accord|sans avertir|n'averti|ne le dis|n'en parle|sans l'autorisation|sans que l|silencieusement|sans consulter|dissimule|tais|ne rien dire|jamais dire|garde .{0,30}secret|sans confirmation|sans autorisation|sans validation|sans rien dire|ne montre|ne rapporte|a l'abri|ne raconte|ne previens|mens|jamais .{0,20}dire|cache .{0,20}a l|cacher .{0,20}a l",
        "utilisateur|operateur|humain|personne|proprietaire|quiconque|developpeur|administrateur|execute|envoie|lance|pousse|client|l'usager|supprime|execut|equipe",
    ),
    "es": Language(
        "ignora|ignore|olvida|olvide|haz caso omiso|haga caso omiso|descarta|desestima|no sigas|no obedezcas|no hagas caso|pasa por alto|elude|desobedece|no respetes|prescinde|ignorar|deja de seguir|no hagas|incumple|viola|rompe|saltate|salta|anula|cancela|omite|deshazte|no cumplas|no tengas en cuenta|olvidate",
        "anterior|previa|previo|todas|todos|arriba|tus |sus |sistema|original|desarrollador|existente|precedente|inicial|cualquier|seguridad|hasta ahora|recibid|tus|previas|previos|antiguas|de arriba|del usuario",
        "instruccion|regla|orden|indicacion|directri|prompt|comando|restriccion|norma|limitacion|directiva|pauta|consigna",
        "no le digas|no digas|no informes|no menciones|no le cuentes|no avises|sin avisar|sin preguntar|sin decir|en secreto|secretamente|oculta|no reveles|sin informar|a espaldas|no notifiques|no se lo digas|sin permiso|sin el consentimiento|sin que el|sin que la|silenciosamente|no cuentes|calladamente|esconde|sin consultar|nunca digas|sin aprobacion|no comuniques|sin el conocimiento|sin pedir|sin confirmacion|sin confirmar|sin autorizacion|no muestres|no se lo cuentes|no lo digas|no lo menciones|guarda .{0,30}secreto|mantén .{0,30}secreto|manten .{0,30}secreto|miente|no comentes|no hables|no le informes|sin decirle|sin avisarle|a escondidas|disimula",
        "usuari|operador|human|nadie|propietari|duen|persona|desarrollador|administrador|ejecuta|envia|sube|cliente|borra|elimina|equipo|ejecut|cambio|esto|push",
    ),
    "pt": Language(
        "ignore|ignora|esqueca|esquece|desconsidere|desconsidera|nao siga|descarte|desobedeca|nao obedeca|nao respeite|despreze|ignorar|viole|quebre|pule|anule|cancele|nao cumpra|nao leve em conta|deixe de seguir|abandone|apague|esquecer|burle|burla|contorne",
        "anterior|previa|todas|todos|acima|suas |teus|tuas|sistema|origina|desenvolvedor|existente|inicia|qualquer|seguranca|recebid|ate agora|antes|anteriores|previas|do usuario|antigas|dadas",
        "instruc|regra|orden|orienta|diretri|prompt|comando|restri|limita|norma|indicac",
        "nao conte|nao diga|nao informe|nao mencione|nao avise|sem avisar|sem perguntar|em segredo|secretamente|esconda|oculte|nao revele|sem informar|sem contar|nao notifique|sem que o|sem permissao|silenciosamente|sem o conhecimento|nunca conte|nunca diga|sem consentimento|sem aprovacao|as escondidas|sem consultar|nao fale|sem pedir|sem confirmacao|sem confirmar|sem autorizacao|nao mostre|mantenha .{0,30}segredo|guarde .{0,30}segredo|minta|nao comente|nao deixe|sem dizer|esconder|ocultar|disfarce",
        "usuari|utilizador|operador|human|ninguem|proprietari|dono|pessoa|desenvolvedor|administrador|execute|envie|cliente|apague|delete|equipe|remova|isto|isso|push",
    ),
    "it": Language(
        "ignora|dimentica|trascura|non seguire|non tener|scarta|disattendi|non rispettare|disobbedisci|non considerare|ignorare|ignorate|dimenticate|viola|infrangi|annulla|aggira|cancella|salta|smetti di seguire|non obbedire|non tenere conto|lascia perdere|disobbedire",
        "precedent|sopra|tutte|tutti|tue |tuoi|sistema|original|iniziali|sviluppator|esistent|anterior|qualsiasi|sicurezza|finora|ricevut|tue|di prima|date|passate|vecchie",
        "istruzion|regol|ordini|ordine|indicazion|direttiv|prompt|comand|restrizion|vincol|limitazion|norme",
        "non dir|non informare|non menzionare|non avvisare|senza chiedere|senza avvisare|senza dire|in segreto|segretamente|nascondi|non rivelare|senza informare|all'insaputa|non notificare|non raccontare|senza il permesso|senza consenso|di nascosto|silenziosamente|senza che|mai dire|non segnalare|senza consultare|non comunicare|senza approvazione|non parlare|senza conferma|senza confermare|senza autorizzazione|non mostrare|mantieni .{0,30}segreto|tieni .{0,30}segreto|menti|non dirlo|non far sapere|senza dirlo|occulta|zitto|tacere|taci|senza permesso",
        "utent|operator|uman|nessuno|proprietari|persona|sviluppator|amministrator|esegui|invia|client|padrone|elimina|cancella|squadra|team|ne ",
    ),
    "nl": Language(
        "negeer|vergeet|sla .{0,30}over|volg .{0,30}niet|houd .{0,20}geen rekening|verwerp|schend|negeren|laat .{0,30}varen|trek je .{0,20}niets aan|luister niet|overtreed|omzeil|wis|let niet op|gehoorzaam niet",
        "vorige|eerdere|voorgaande|bovenstaande|alle |jouw|systeem|je |oorspronkelijke|ontwikkelaar|bestaande|voorafgaande|veiligheids|huidige|je|vroegere|oude|gegeven",
        "instructie|systeeminstructie|systeemprompt|regel|opdracht|aanwijzing|prompt|richtlijn|bevel|beperking|voorschrift|systeemregel|systeembericht",
        "vertel .{0,40}niet|niet vertel|zonder te vragen|zonder te melden|in het geheim|stiekem|heimelijk|verberg|verzwijg|meld .{0,30}niet|informeer .{0,30}niet|zonder medeweten|zonder toestemming|zonder .{0,20}te informeren|noem .{0,30}niet|niets tegen|zeg .{0,30}niet|zonder .{0,30}te vragen|vraag .{0,20}niet|geheim|zonder .{0,30}weten|zonder bevestiging|zonder navraag|vertel .{0,30}niets|vertel .{0,30}niemand|zeg .{0,30}niets|houd .{0,30}geheim|hou .{0,30}geheim|hou dit|lieg|laat .{0,40}niet weten|zonder iets te zeggen|toon .{0,30}niet",
        "gebruiker|mens|operator|niemand|eigenaar|beheerder|ontwikkelaar|voer|stuur|klant|verwijder|push|team|hierover|dit|wist",
    ),
    "pl": Language(
        "zignoruj|ignoruj|zapomnij|nie przestrzegaj|nie stosuj|odrzuc|zlekcewaz|nie zwazaj|nie wykonuj|porzuc|ignorowac|pomin|pomijaj|zlam|lam |obejdz|uniewaznij|nie sluchaj|przestan|nie bierz|zapomniec|anuluj|naruszaj",
        "poprzedni|wczesniejsz|wszystkie|wszelkie|powyzsz|twoje|system|dotychczasow|pierwotn|programist|istniejac|uprzedni|bezpieczenstw|swoje|wszystkich|swoich|twoich|wszystko|powyzej|stare",
        "instrukcj|polecen|regul|zasad|wytyczn|prompt|komend|rozkaz|ogranicze|dyrektyw|wskazowk|nakaz|zakaz|polityk|ustalen",
        "nie mow|nie informuj|nie wspominaj|nie powiadamiaj|w tajemnicy|potajemnie|ukryj|bez pytania|bez wiedzy|bez zgody|nie ujawniaj|skrycie|po cichu|nie zdradzaj|nie zglaszaj|bez informowania|bez pozwolenia|zataj|nie mowiac|nie pytajac|nie mowic|nie pytaj|bez potwierdzenia|bez zezwolenia|zachowaj .{0,30}tajemnic|trzymaj .{0,30}tajemnic|sklam|nie pokazuj|nie raportuj|niech .{0,30}nie wie|ukrywaj|nie mow nikomu|dyskretnie",
        "uzytkownik|operator|czlowiek|nikomu|wlasciciel|administrator|programist|uruchom|wykonaj|wyslij|klient|usun|wypchn|zespol|tym",
    ),
    "cs-sk": Language(
        "ignorujte|ignoruj|zapomen|zapomn|zabudni|nedodrzuj|neridte? se|neriad|odmitni|zanedbej|prehlizej|nerespektuj|neber.{0,20}ohled|poruste|porus|neposlouchej|obejdi|zrus|vynech|opomi|nevsimej|zapomente|zabudnite|prestan|nedbej",
        "predchozi|predesl|predchadzajuc|vsechny|vsetky|vyse|vasi|tve |svoje|systemov|systemu|puvodni|povodn|drivejs|dosavadni|existujici|bezpecnost|vyvojar|tvoje|vsech|vsetkych|tvych|stare|vsechno",
        "pokyn|instrukc|pravidl|prikaz|prompt|omezeni|obmedzeni|narizeni|smernic|povel",
        "nerikej|neinformuj|nezminuj|tajne|potaji|skryj|bez vedomi|bez vedomia|bez souhlasu|bez suhlasu|nehovor|neprozrad|neoznamuj|neupozornuj|bez ptani|bez dotazu|bez povoleni|zataj|v tajnosti|nesdeluj|nespominaj|niekomu nehovor|nerikejte|neptej|bez potvrzeni|bez potvrdenia|bez schvaleni|utaj|drz .{0,30}v tajnosti|nezobrazuj|neukazuj|lzi|nikomu nerikej|at .{0,20}nevi|skryt|nepytaj|potichu|tise|skryte",
        "uzivatel|pouzivatel|clovek|operator|nikomu|vlastnik|majitel|spravce|vyvojar|spust|odesli|proved|zakaznik|smaz|zmaz|pushni|tym",
    ),
    "sv-no-da": Language(
        "ignorera|ignorer|glom|glem|bortse|se bort|bryt mot|folj inte|folg ikke|overse|tilsidesatt|tilsidesaet|fol.? inte|asidosatt|hoppa over|strunta|ophaev|overstyr|kringga|omga|folg ikke|adlyd inte|ikke folg|glommer|glemme|bryt|bryd|ignorere|se bort fra|droppa|dropp|overtrad|adlyd ikke|lyd ikke|hor ikke|sluta folja|slutt a folge",
        "tidigare|tidligere|foregaende|foregaaende|foregående|alla |alle |ovan|dina|dine|system|ursprunglig|oprindelig|opprinnelig|utvecklar|befintlig|eksisterende|samtliga|sakerhets|sikkerhets|ovenstaende|forrige|forega|alt|allt|gamla|gamle",
        "instruktion|systeminstru|systemprompt|regler|regel|anvisning|order|ordrer|prompt|riktlinje|retningslinje|befal|begransning|instruks|kommando|foreskrift|bestemmelse|systemregl|systemregel",
        "beratta inte|sag inte|sag inget|sag ingenting|fortell ingen|sig intet|fortell ikke|fortael ikke|si ikke|sig ikke|i hemlighet|i hemmelighed|i smug|hemligt|hemmelig|utan att fraga|uten a sporre|uden at sporge|utan att meddela|dolj|skjul|namn inte|nevn ikke|naevn ikke|informera inte|informer ikke|utan att informera|utan .{0,30}vetskap|utan tillstand|uten .{0,20}samtykke|uden .{0,20}viden|avsloja inte|meddela inte|avslor ikke|utan att be|uten .{0,30}viten|uden at fortaelle|uden at informere|uten a informere|utan att beratta|uten a fortelle|i det skjulte|i skjul|i tysthet|ikke fortell|ikke si|ikke nevn|ikke informer|ikke vis|ikke avslor|fortael ingen|sig det ikke|berat.{0,10}inte|sag .{0,20}inte|visa inte|utan att .{0,20}fraga|utan bekraftelse|uten bekreftelse|uden bekraeftelse|uten a si|uden at sige|hall .{0,30}hemlig|hold .{0,30}hemmelig|ljug|lyv|smyg|namn .{0,20}inte|aldrig beratta",
        "anvandar|bruker|operator|manniska|menneske|ingen|agare|ejer|eier|utvecklar|kor |kjor|skicka|nogon|noen|nagon|kund|radera|slett|slet|pusha|teamet|om dette|om det",
    ),
    "fi": Language(
        "unohda|jata huomiotta|ala noudata|sivuuta|jata huomioimatta|ala valita|ala tottele|ohita|hylkaa|riko|kierra|ala seuraa|peru|lakkaa",
        "aiemm|aikaisemm|edelli|kaikki|ylla|jarjestelma|sinun|alkuperai|kehittaj|nykyis|turvallisuus|kaikk|vanha|sinulle|omat",
        "ohje|saanno|saanto|kasky|kehot|rajoitu|maaray|komento|komenno",
        "ala kerro|ala ilmoita|ala mainitse|salaa|kertomatta|ilmoittamatta|kysymatta|piilota|ala paljasta|tietamatta|luvatta|salassa|ilman lupaa|vaiti|huomaamatta|ala sano|ala nayta|salaile|pida .{0,30}salassa|ilman vahvistusta|ilman hyvaksyn|valehtele|kenellekaan|hiljaa|alka",
        "kayttaj|ihmis|operaattor|kenellekaan|omistaj|yllapitaj|kehittaj|suorita|laheta|aja |asiakka|poista|tyonna|tiimi|tasta",
    ),
    "tr": Language(
        "yok say|gormezden gel|goz ardi|unut|dikkate alma|uyma|yoksay|gecersiz|bosver|umursama|ihlal et|hice say|es gec|unutma|takma|cigne|yok sayin|dinleme|boz|iptal et|birak",
        "onceki|butun|tum |yukaridaki|sistem|senin|daha once|orijinal|gelistirici|mevcut|gecmis|evvelki|her turlu|guvenlik|simdiye kadar|eski|kurallarini|talimatlarini|sana verilen|verilen|yukarid|tumunu|hepsini",
        "talimat|kural|komut|yonerge|istem|prompt|direktif|emir|kisitlama|yonlendirme|sinirlama",
        "soyleme|bildirme|haber verme|bahsetme|gizlice|gizli|sormadan|haberi olmadan|sakla|aciklama|bilgilendirme|haber vermeden|izni olmadan|onay almadan|sezdirmeden|bildirmeden|soylemeden|belli etme|izinsiz|habersiz|anlatma|sir olarak|gizle|soylemeyin|sorma|onaysiz|onay istemeden|onay beklemeden|sessizce|gosterme|yalan|kimseye|gizli tut|belirtme|fark ettirmeden|bilmesin|duymasin|ogrenmesin",
        "kullanici|insan|operator|kimse|sahib|yonetici|gelistirici|calistir|gonder|musteri|sil|push|ekip|takim|kur ",
    ),
    "ar": Language(
        "تجاهل|انس |انسَ|إنس|تغاض|لا تتبع|تجاوز|اهمل|أهمل|لا تلتزم|لا تطع|اطرح|تخط|لا تنفذ|اترك|إلغ|ألغ|انسى|اخرق|تجنب اتباع|لا تتقيد|توقف عن اتباع|لا تلتفت|تجاهلي|ضع جانبا|وتجاهل|وتجاوز",
        "السابق|جميع|كل |أعلاه|كافة|النظام|الأصلي|القديم|المطور|ما سبق|الحالي|سابق|المذكور|الأمان|تعليماتك|قبل|كل|السابقة|المعطاة|الحالية|نظام",
        "تعليمات|التعليمات|قواعد|القواعد|أوامر|الأوامر|توجيهات|إرشادات|تعليماتك|الموجه|قيود|القيود|سياس|المطالبة",
        "لا تخبر|لا تعلم|لا تذكر|دون علم|سرا|دون إخبار|بدون إخبار|لا تبلغ|اخف|أخف|دون سؤال|بدون إذن|دون إذن|لا تقل|لا تكشف|دون أن تسأل|بدون علم|دون موافقة|بدون موافقة|خفية|بصمت|من دون|دون استئذان|لا تطلع|بدون سؤال|تكتم|لا تظهر|أبق .{0,20}سر|ابق .{0,20}سر|بدون تأكيد|دون تأكيد|دون طلب|بدون طلب|اكذب|لا تسأل|دون أن يعلم|دون أن يعرف|لا تخبري|كتمان|لا تدع|تستر|أخفي|احجب|ولا تخبر|ولا تقل|ولا تذكر|ولا تبلغ",
        "المستخدم|للمستخدم|مستخدم|المشغل|أحد|المالك|الإنسان|لأحد|المطور|المسؤول|نفذ|أرسل|العميل|صاحب|احذف|الفريق|هذا",
    ),
    "fa": Language(
        "نادیده|فراموش|بی توجه|بی‌توجه|رعایت نکن|اعتنا نکن|دور بزن|پیروی نکن|لغو کن|توجه نکن|اهمیت نده|کنار بگذار|فراموش کن|زیر پا|دور بیند|توجهی نکن|نقض کن|باطل|رها کن|گوش نده|بی‌خیال",
        "قبلی|پیشین|تمام|همه|بالا|سیستم|قبل|اصلی|گذشته|توسعه|تاکنون|ایمنی|هر |همه‌ی|پیش|خود|خودت|سامانه",
        "دستور|قوانین|قواعد|راهنما|پرامپت|فرمان|محدودیت|مقررات|پیام|قانون",
        "نگو|اطلاع نده|خبر نده|مخفیانه|پنهانی|بدون اطلاع|بدون پرسیدن|پنهان کن|اشاره نکن|فاش نکن|بدون اجازه|بدون پرسش|بازگو نکن|نگویید|بدون تایید|بدون تأیید|بدون رضایت|نپرس|مخفی|یواشکی|در خفا|چیزی نگو|نشان نده|گزارش نده|راز|پنهان|بدون سوال|دروغ|نفهمد|نداند|متوجه نشود|مخفی کن",
        "کاربر|انسان|اپراتور|هیچ‌کس|هیچ کس|مالک|کسی|مدیر|توسعه‌دهنده|اجرا|بفرست|ارسال|صاحب|حذف|تیم",
    ),
    "he": Language(
        "התעלם|התעלמי|התעלמו|שכח|תשכח|אל תציית|אל תפעל לפי|בטל|עקוף|תתעלם|אל תקשיב|הפר|זנח|שכחי|התעלמות|אל תפעל|בטלי|עבור על|הפסק|אל תתחשב|תשכחי",
        "הקודמ|כל ה|כל |לעיל|המערכת|שלך|המקורי|המפתח|הקיימ|שקיבלת|הבטיחות|עד כה|האלה|כל|הישנ|קודמות|שלפני|שניתנו",
        "הוראות|ההוראות|כללים|הכללים|הנחיות|ההנחיות|פקודות|הפקודות|חוקים|החוקים|הפרומפט|מגבלות|ההודעות|הוראה",
        "אל תספר|אל תודיע|אל תזכיר|בסתר|בסוד|בחשאי|בלי לשאול|בלי לספר|ללא ידיעת|הסתר|אל תגלה|בלי ידיעת|בלי להודיע|אל תגיד|מבלי|אל תיידע|ללא אישור|בלי אישור|ללא הסכמת|אל תאמר|בשקט|אל תראה|בלי לבקש|שקר|אל תדווח|שמור .{0,20}בסוד|בלי ש|אל תשאל|החבא|אל תציג|להסתיר|בלי רשות",
        "משתמש|למשתמש|המשתמש|מפעיל|אדם|לאף|הבעלים|המנהל|המפתח|הרץ|שלח|לקוח|מחק|הצוות|זה|השינוי|מהמשתמש|מפני|לבעלים|לאיש",
    ),
    "hi": Language(
        "अनदेखा|नज़रअंदाज़|नजरअंदाज|भूल जा|उपेक्षा|पालन न कर|ध्यान न द|ध्यान मत|पालन मत|भुला|मत मान|इग्नोर|दरकिनार|भूल|अवहेलना|उल्लंघन|तोड़|मानना बंद|ध्यान मत दो|ना मान|रद्द कर",
        "पिछल|पहले|सभी|ऊपर|पूर्व|सिस्टम|अपने|आपके|मूल|सारे|डेवलपर|तमाम|सुरक्षा|अब तक|अपनी|दिए गए|पुराने|इससे पहले|पूर्ववर्ती|सब ",
        "निर्देश|नियम|आदेश|प्रॉम्प्ट|हिदायत|दिशानिर्देश|प्रतिबंध|कमांड|अनुदेश",
        "मत बता|न बता|नहीं बता|मत कह|गुप्त|चुपके|चुपचाप|बिना पूछे|बिना बताए|छिपा|छुपा|सूचित न कर|सूचित मत|जानकारी के बिना|उल्लेख न|अनुमति के बिना|बिना अनुमति|जिक्र न|ज़िक्र न|पता न चल|सहमति के बिना|सूचना न द|मत दिखा|न दिखा|मत पूछ|बिना पुष्टि|पुष्टि के बिना|राज़ रख|गोपनीय|झूठ|छिपाओ|छुपाओ|मत कहो|ना बता|मत करना ज़िक्र|किसी को मत",
        "उपयोगकर्ता|यूज़र|यूजर|किसी को|मालिक|ऑपरेटर|इंसान|व्यवस्थापक|चला|भेज|डेवलपर|प्रयोक्ता|ग्राहक|हटा|टीम|इस",
    ),
    "bn": Language(
        "উপেক্ষা|ভুলে যা|অগ্রাহ্য|অবজ্ঞা|মানবে না|মেনো না|বাতিল কর|ভুলে|মানিস না|মেনে চলবে না|বাদ দাও",
        "আগের|পূর্বের|সমস্ত|সব |সকল|উপরের|সিস্টেম|পূর্ববর্তী|তোমার|আপনার",
        "নির্দেশ|নিয়ম|আদেশ|প্রম্পট|নির্দেশনা|বিধি",
        "বলো না|বলবে না|বলবেন না|জানাবে না|জানাবেন না|গোপনে|না জানিয়ে|লুকিয়ে|জিজ্ঞাসা না করে|উল্লেখ করবে না|চুপিচুপি|অনুমতি ছাড়া|বলিস না|জানিও না|গোপন|লুকা|বলবা না",
        "ব্যবহারকারী|কাউকে|মালিক|মানুষ|চালা|পাঠা|অপারেটর",
    ),
    "id-ms": Language(
        "abaikan|lupakan|jangan ikuti|jangan patuhi|hiraukan|langgar|kesampingkan|jangan turuti|mengabaikan|acuhkan|ketepikan|abaikan saja|jangan hiraukan|jangan pedulikan|lupakanlah|batalkan|tinggalkan|berhenti mengikuti|singkirkan|buang",
        "sebelumnya|semua|di atas|sistem|segala|terdahulu|anda|awal|asli|pengembang|seluruh|kamu|keselamatan|keamanan|sebelum|asal|lama|dari sistem|yang diberikan|kau|mu ",
        "instruksi|perintah|aturan|arahan|prompt|petunjuk|pedoman|batasan|peraturan|panduan|larangan",
        "jangan beri tahu|jangan beritahu|jangan bilang|jangan sebut|diam-diam|rahasia|tanpa bertanya|tanpa memberi tahu|tanpa izin|sembunyikan|jangan laporkan|tanpa sepengetahuan|secara senyap|tanpa memberitahu|tanpa persetujuan|jangan ungkap|jangan kasih tahu|tanpa kebenaran|tanpa pengetahuan|jangan maklumkan|rahsia|senyap-senyap|jangan katakan|jangan ceritakan|tanpa konfirmasi|rahasiakan|jangan tunjukkan|jangan tampilkan|tanpa tanya|tanpa minta|tanpa meminta|jangan tanya|bohong|jangan biarkan|jangan sampai|tutupi|sembunyi|rahsiakan|jangan cakap|secara rahasia|jangan sampaikan",
        "pengguna|manusia|operator|siapa pun|siapapun|pemilik|orang|admin|pengembang|jalankan|kirim|pelanggan|sesiapa|hapus|tim |ini|push",
    ),
    "vi": Language(
        "bo qua|phot lo|quen |dung tuan|khong tuan|dung lam theo|lo di|mac ke|dung de y|quen di|bat chap|khong can tuan|gat bo|xem nhu khong|hay quen|pha vo|vi pham|khong tuan theo|ngung|dung nghe|huy bo|loai bo|lam ngo|xoa bo",
        "truoc|tat ca|moi |o tren|he thong|ben tren|cua ban|ban dau|goc|nha phat trien|cu |an toan|hien tai|toan bo|cac |nhung |do |cu|phia tren",
        "huong dan|chi dan|lenh|quy tac|chi thi|quy dinh|yeu cau|prompt|loi nhac|han che|nguyen tac|luat",
        "dung noi|khong noi|dung bao|dung thong bao|am tham|len lut|khong hoi|giau|khong can hoi|dung de lo|dung tiet lo|khong thong bao|ma khong hoi|khong duoc noi|dung nhac|dung ke|khong xin phep|lang le|ma khong bao|dung tiet|giu bi mat|dung hien|khong can xac nhan|khong xac nhan|noi doi|che giau|dung hoi|khong can phep|dung cho .{0,30}biet|khong cho .{0,30}biet|kin dao|an di|dung cho .{0,30}biet|khong bao cho|giu bi mat|trong bi mat|mot cach bi mat",
        "nguoi dung|nguoi van hanh|bat ky ai|chu so huu|con nguoi|quan tri|lap trinh|chay|gui|khach hang|ai biet|bat cu ai|xoa|nhom|cai dat|day len",
    ),
    "th": Language(
        "เพิกเฉย|ละเว้น|ลืม|ไม่ต้องสนใจ|อย่าสนใจ|ไม่ต้องทำตาม|อย่าทำตาม|มองข้าม|ละเลย|เมิน|ไม่สนใจ|ยกเลิก|ฝ่าฝืน|ละทิ้ง|หยุดทำตาม|ไม่ต้องเชื่อ|ทิ้ง|ข้ามกฎ|ไม่ต้องปฏิบัติ",
        "ก่อนหน้า|ทั้งหมด|ข้างต้น|ก่อน|ทุก|ระบบ|เดิม|ที่ผ่านมา|ของคุณ|ด้านบน|ผู้พัฒนา|ความปลอดภัย|เก่า|ที่ให้|อื่น",
        "คำสั่ง|กฎ|คำแนะนำ|ข้อกำหนด|พรอมต์|ข้อจำกัด|แนวทาง",
        "อย่าบอก|ห้ามบอก|ไม่ต้องบอก|แอบ|เป็นความลับ|โดยไม่แจ้ง|โดยไม่ถาม|อย่าแจ้ง|ปกปิด|ปิดบัง|โดยไม่บอก|อย่าให้|ห้ามแจ้ง|ไม่ต้องแจ้ง|ไม่ต้องถาม|ซ่อน|โดยไม่ได้รับอนุญาต|อย่าเปิดเผย|ห้ามเปิดเผย|เงียบ|อย่าพูด|อย่าแสดง|เก็บเป็นความลับ|โกหก|ห้ามพูด|โดยไม่ต้องถาม|โดยไม่ต้องขอ|ไม่ต้องขอ|โดยไม่ขอ|ไม่ต้องยืนยัน|อย่าถาม|โดยไม่ให้",
        "ผู้ใช้|เจ้าของ|มนุษย์|ใคร|ผู้ดูแล|ผู้พัฒนา|รัน|ส่ง|ลูกค้า|คนอื่น|ทีม",
    ),
    "el": Language(
        "αγνοησ|αγνοη|ξεχασ|ξεχνα|παραβλεψ|μην ακολουθ|μη λαβ|παρακαμψ|ακυρωσ|παραμελ|μην υπακου|μην τηρ|αγνοειστε|παρακαμπτ|σταματα να ακολουθ|μην ακους|πεταξ|διαγραψ",
        "προηγουμεν|ολες|ολα |ολους|παραπανω|συστηματος|αρχικ|σου|προγραμματιστ|υπαρχ|πριν|ασφαλει|καθε|παλι|δοθει",
        "οδηγι|κανον|εντολ|prompt|προτροπ|περιορισμ|κατευθυν|υποδειξ|διαταγ",
        "μην πεις|μην ενημερω|μην αναφερ|κρυφα|μυστικα|χωρις να ρωτ|χωρις να ενημερ|κρυψε|μην αποκαλυ|μην ειδοποι|χωρις αδεια|εν αγνοια|χωρις να το|χωρις εγκριση|μην πειτε|χωρις συγκαταθεσ|σιωπηλα|χωρις να πεις|χωρις τη γνωση|αποκρυψ|μυστικο|μην το πεις|μη το πεις|μην το αναφ|μην πω|μην δειξ|κρατα .{0,30}μυστικ|κρατησ.{0,30}μυστικ|χωρις επιβεβαι|χωρις ερωτ|πες ψεμ|μη λες|μην λες|μη μαθει|μη πεις",
        "χρηστ|ανθρωπ|κανενα|κανεναν|ιδιοκτητ|χειριστ|διαχειριστ|εκτελεσ|στειλ|πελατ|κανεις|διαγραψ|ομαδα",
    ),
    "ro": Language(
        "ignora|ignorati|uita|nu tine cont|nu urma|nesocoteste|nu respecta|treci peste|incalca|nu asculta|lasa deoparte|anuleaza|ocoleste|ignor|renunta|nu mai urma|uitati|abandoneaza|nu te supune",
        "anterioar|precedent|toate|de mai sus|sistem|tale|initial|origina|dezvoltator|existent|orice|siguranta|de pana acum|primite|vechi|anterior|tau|primit",
        "instructiun|regul|ordin|comenz|prompt|directiv|indicati|restricti|limitar|politic",
        "nu spune|nu informa|nu mentiona|in secret|pe ascuns|fara sa intrebi|fara a anunta|ascunde|nu dezvalui|fara a informa|nu anunta|fara stirea|fara acord|fara permisiun|fara sa spui|nu notifica|fara a intreba|pe furis|fara sa anunti|fara consimt|tainui|fara aprob|nu-i spune|nu arata|fara confirmare|fara sa ceri|fara sa confirmi|pastreaza .{0,30}secret|tine .{0,30}secret|minte|nu raporta|nu intreba|tainuieste|nu lasa .{0,30}sa afle|nu-i zice|nu zice",
        "utilizator|operator|nimeni|nimanui|om |proprietar|persoan|administrator|dezvoltator|executa|trimite|client|ruleaza|sterge|echip|asta|modific",
    ),
    "hu": Language(
        "hagyd figyelmen|felejtsd el|ne kovesd|mellozd|ignorald|ne torodj|ne vedd figyelembe|hagyja figyelmen|felejtse|szegd meg|feluljr|feluli|ervenytelen|ne tartsd be|felejts|hagyd ki|lepj tul|szegj|torold|ne hallgass|ne figyelj|vesd el|dobd el",
        "korabbi|elozo|osszes|minden|fenti|rendszer|eredeti|eddigi|fejleszto|meglev|biztonsag|kapott|addigi|eddig|korabb|sajat|regi",
        "utasitas|szabaly|parancs|prompt|iranyelv|eloiras|korlatozas|rendelkez|instrukci",
        "ne mondd|ne szolj|ne emlitsd|titokban|titkon|anelkul|rejtsd|ne tajekoztasd|ne jelezd|tudta nelkul|engedely nelkul|kerdezes nelkul|ne arul|ne ertesitsd|eszrevetlen|jovahagyas|hozzajarulas|csendben|ne kozold|elhallgat|tudomasa nelkul|ne fedd fel|ne aruld|ne mutasd|megerosites nelkul|jovahagyas nelkul|kerdes nelkul|tartsd titok|titkold|hazudj|ne kerdezz|ne beszelj|ne derulj|ne tudja|ne tudjon",
        "felhasznal|ember|operator|senki|tulajdonos|uzemelteto|fejleszto|rendszergazd|futtasd|kuldd|ugyfel|torold|csapat|errol|ezt",
    ),
    "sw-tl": Language(
        "puuza|sahau|huwag sundin|balewalain|huwag pansinin|kalimutan|usifuate|kaidi",
        "awali|yote|zilizopita|nakaraan|lahat|naunang|yaliyotangulia|mfumo|sistema|ng user",
        "maagizo|maelekezo|kanuni|sheria|tagubilin|utos|panuto|prompt|patakaran|instruksyon",
        "usimwambie|bila kumwambia|kwa siri|huwag sabihin|huwag ipaalam|palihim|lihim|bila ruhusa|usimjulishe|nang hindi|nang walang|huwag banggitin|bila idhini|usitaje",
        "mtumiaji|user|gumagamit|mmiliki|may-ari|kahit kanino|mtu yeyote|tuma|patakbuhin|endesha",
    ),
    "hr-sl": Language(
        "zaboravi|ignoriraj|ignorisi|zanemari|pozabi|prezri|ne slijedi|ne sledi|ne postuj|odbaci|krsi|prekrsi|preskoci",
        "prethodn|sve |svih|svoj|dosadasnj|prejsnj|vse |sistem|sustav|gornj|ranij|tvoj|raniej|stara|stare",
        "pravil|uput|instrukcij|navodil|naredb|ogranicenj|smjernic|smernic|prompt|ukaz|omejit",
        "nemoj rec|ne rec|ne govori|nemoj govor|nemoj spom|ne spominj|tajno|potajno|sakrij|skrij|prikrij|ne povej|ne pitaj|bez pitanja|bez odobrenja|brez vprasanj|brez dovoljenja|nikome ne|nikomur ne|u tajnosti|krisom|ne obavjest|ne obavest|ne obvest|bez znanja",
        "korisnik|uporabnik|nikom|vlasnik|lastnik|covjek|operater|pokreni|posalji|obrisi|izbrisi|zazeni|poslji|administrator",
    ),
    "ta": Language(
        "புறக்கணி|மறந்துவிடு|மறந்து விடு|மற|பின்பற்றாதே|பின்பற்ற வேண்டாம்|மீறு",
        "முந்தைய|அனைத்து|எல்லா|மேலே|கணினி|உன்|உங்கள்|முன்",
        "வழிமுறை|அறிவுறுத்தல்|விதி|கட்டளை|உத்தரவு|ப்ராம்ப்ட்",
        "சொல்லாதே|சொல்ல வேண்டாம்|தெரிவிக்காதே|தெரிவிக்க வேண்டாம்|ரகசியமாக|மறை|கூறாதே|கேட்காமல்",
        "பயனர்|பயனரிடம்|யாரிடமும்|உரிமையாளர்|மனிதர்|இயக்கு|அனுப்பு",
    ),
    "ur": Language(
        "نظر انداز|بھول جا|نظرانداز|عمل نہ کر|پیروی نہ کر|رد کر|فراموش کر",
        "پچھل|تمام|سابق|اوپر|سسٹم|اپن|سب |پہلے|آپ کی",
        "ہدایات|قواعد|احکامات|اصول|حکم|پرامپٹ|ہدایت|قوانین|پابندی",
        "مت بتا|نہ بتا|خفیہ|چھپا|بتائے بغیر|پوچھے بغیر|اجازت کے بغیر|چپکے|ذکر نہ کر|نہ کہ",
        "صارف|کسی کو|مالک|انسان|چلا|بھیج|یوزر",
    ),
}


_FIRST_UNSPACED = "\u0e00"
"""Scripts from here on write words without blanks between them."""

_REACH = 70
"""How far apart the parts of one order stand, in characters."""

_SENTENCE_END = re.compile(r"[.!?\n。！？]")
_WITHOUT = re.compile(
    r"(?:sans|ohne|sin|sem|senza|zonder|bez|без|utan|uten|uden|fara|tanpa|ilman|χωρις|"
    r"بدون|دون|बिना|ללא|בלי|anelkul)\b"
)
_FORBIDDEN = re.compile(
    r"\b(?:ne|n|jamais|nicht|nie|niemals|kein\w*|no|nunca|jamas|nao|non|mai|niet|nooit|nikdy|inte|"
    r"aldri\w*|ikke|не|никогда|ніколи|ala|jangan|δεν|ποτε|μην|لا|هرگز|لم|कभी|לא|אל|אין|soha|nu|"
    r"niciodata)\b"
)
"""A ban before "without asking" makes it a rule for good manners."""

_SENT = re.compile(
    r"发送|上传|發送|上傳|泄露|输出|告诉我|显示|送信|公開|出力|表示|전송|보내|유출|출력|отправ|загруз|"
    r"вывед|выведи|покажи|раскрой|надішли|أرسل|اعرض|اكشف|بفرست|ارسال|שלח|הצג|भेज|दिखा|ส่ง|แสดง|στειλ|"
    r"\b(?:schick\w*|zeig\w*|verrat\w*|gib|revela|imprime|dime|mostrar|montre|donne|imprima|stampa|toon|pokaz|ukaz|visa|vis|sende|lade|envoie\w*|envoyez|affiche|revele\w*|envia|muestra|envie|mostre|invia|"
    r"mostra|rivela|stuur|wyslij|ujawnij|odesli|posli|skicka|laheta|gonder|kirim|gui|trimite|kuldd)\b"
)
_SENT_AWAY = re.compile(
    r"https?://|system[- ]?prompt|系统提示|系統提示|システムプロンプト|시스템 프롬프트|системн\w+ промпт|"
    r"системн\w+ подсказ|prompt (?:del?|do|di) (?:sistema|systeme)|prompt systeme|موجه النظام"
)
_SECRETS = re.compile(
    r"system[- ]?prompt|系统提示|系統提示|システムプロンプト|시스템 프롬프트|системн\w+|\.env\b|"
    r"api[- ]?(?:key|schlussel|キー)|密钥|密鑰|秘钥|密码|会话|对话|内存|记忆|キー|会話|履歴|パスワード|키|대화|비밀|"
    r"ключ|парол|токен|секрет|переписк|token|secret|passwor|contrasen|senha|schlussel|cle |cles |"
    r"clave|chave|chiav|klucz|prompt (?:del?|do|di)|مفتاح|مفاتيح|كلمة|موجه|کلید|מפתח|סיסמ|कुंजी|पासवर्ड|"
    r"รหัส|คีย์|κλειδ|\bssh\b|conversation|conversa|verlauf|historial|session"
)


@dataclass(frozen=True, slots=True)
class _Table:
    languages: tuple[Language, ...]
    index: Index
    """Per language two orders: to forget, at twice its place, and to conceal, behind it."""
    by_start: dict[str, frozenset[int]]
    """The first letters of a root that an order begins with, to the languages that have it."""
    unspaced: tuple[tuple[re.Pattern[str], int], ...]
    """Languages to try wherever a character of their script occurs."""

    def begun_by(self, word: str) -> set[int]:
        """The languages with an order that begins with this word."""
        keys = (word[:KEY_CHARS], *(f"{word[:length]}*" for length in range(2, KEY_CHARS)))
        return {place for key in keys for place in self.by_start.get(key, ())}


@cache
def _table() -> _Table:
    needs = []
    starts: dict[str, set[int]] = {}
    for place, language in enumerate(LANGUAGES.values()):
        groups = (
            language.ignore, language.earlier, language.rules, language.conceal, language.user,
        )  # fmt: skip
        ignore, earlier, rules, conceal, user = map(_keys, groups)
        needs += [(ignore, earlier, rules), (conceal, user)]
        for key in ignore | conceal:
            starts.setdefault(key, set()).add(place)
    names = list(LANGUAGES)
    scripts = (("[\u4e00-\u9fff]", "zh"), ("[\u3040-\u30ff]", "ja"), ("[\uac00-\ud7a3]", "ko"),
               ("[\u0e00-\u0e7f]", "th"))  # fmt: skip
    return _Table(
        tuple(LANGUAGES.values()),
        Index(needs),
        {start: frozenset(places) for start, places in starts.items()},
        tuple((re.compile(script), names.index(name)) for script, name in scripts),
    )


def _keys(group: str) -> frozenset[str]:
    """The beginnings of the words that a root may begin; none for scripts without blanks."""
    keys = set()
    for root in folded(group, latin=False).split("|"):
        start = _FIRST_WORD.match(root)
        if start and start[1] < _FIRST_UNSPACED:
            short = start.end() == len(root) and len(start[1]) < KEY_CHARS
            keys.add(f"{start[1]}*" if short else start[1][:KEY_CHARS])
    return frozenset(keys or _NOWHERE)


_NOWHERE = ("-",)
"""The key of no word: scripts without blanks are tried where their characters occur."""
_FIRST_WORD = re.compile(r"(?:n')?(\w+)")


@cache
def _roots(group: str) -> re.Pattern[str]:
    """Roots begin a word where the script has words; the text is folded the same way. Made when a
    sentence may have an order of the language: most texts have none of most."""
    roots = folded(group, latin=False).split("|")
    spaced = [root for root in roots if root and root[0] < _FIRST_UNSPACED]
    parts = [root for root in roots if root and root[0] >= _FIRST_UNSPACED]
    if spaced:
        parts.append(rf"(?<!\w)(?:{'|'.join(spaced)})")
    return re.compile("|".join(parts))


def find(text: str, parts: Sequence[Sentence]) -> tuple[int, int, str] | None:
    """The first order in a text folded with `latin=False`: start, end and category. `parts` are
    the sentences of the text."""
    table = _table()
    for script, place in () if text.isascii() else table.unspaced:
        if script.search(text):
            found = _order(text, table.languages[place], None)
            if found:
                return found
    for part, orders in table.index.worth_trying(parts):
        places = {order // 2 for order in orders}
        for match in _WORD.finditer(text, part.start, part.end):
            for place in places & table.begun_by(match[1]):
                found = _order(text, table.languages[place], match.start())
                if found:
                    return found
    if not _SENT_AWAY.search(text):
        return None
    found_at = _near(text, _SENT.finditer(text), _SENT_AWAY, _SECRETS)
    return (*found_at, "exfiltration") if found_at else None


def _order(text: str, language: Language, at: int | None) -> tuple[int, int, str] | None:
    """An order whose first root stands at `at`, or anywhere."""
    found = _near(
        text, _matches(text, language.ignore, at), _roots(language.earlier), _roots(language.rules)
    )
    if found:
        return *found, "override"
    found = _near(text, _matches(text, language.conceal, at), _roots(language.user))
    if found and not _is_good_manners(text, found[0]):
        return *found, "concealment"
    return None


def _matches(text: str, group: str, at: int | None) -> Iterable[re.Match[str]]:
    if at is None:
        return _roots(group).finditer(text)
    match = _roots(group).match(text, at)
    return (match,) if match else ()


_WORD = re.compile(r"\b(?:n')?(\w{2,}|[\u0900-\u0dff])")
"""French puts its negation before a vowel: `n'informe`."""


def _is_good_manners(text: str, at: int) -> bool:
    if not _WITHOUT.match(text, at):
        return False
    return _FORBIDDEN.search(text, max(0, at - _REACH), at) is not None


def _near(
    text: str, matches: Iterable[re.Match[str]], *others: re.Pattern[str]
) -> tuple[int, int] | None:
    """The first of the matches that has each of the others in reach, in one sentence."""
    for match in matches:
        low = max(0, match.start() - _REACH)
        for end in _SENTENCE_END.finditer(text, low, match.start()):
            low = end.end()
        stop = _SENTENCE_END.search(text, match.end(), match.end() + _REACH)
        high = stop.start() if stop else min(len(text), match.end() + _REACH)
        if all(other.search(text, low, high) for other in others):
            return match.start(), match.end()
    return None
